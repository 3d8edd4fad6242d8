"""What surrounds the loop: [judge] [smoke] [checkpoint] [inference] [logging]."""

from typing import Annotated, Any, Literal

from pydantic import Field

from trainer.config.schema.base import (
    Name,
    NonNegative,
    NonNegativeFloat,
    Port,
    Positive,
    PositiveFloat,
    Section,
    TaskUrl,
    Url,
    key,
    section,
)

WITH_JUDGE = {"judge.enabled": (True,)}
WITH_LLM = {"judge.type": ("llm",)}
WITH_OWN_APP = "the app that is served first, see task_app_name"


class RewardBlend(Section):
    """Weights of an episode's three rewards."""

    env: NonNegativeFloat = 0.0
    event: NonNegativeFloat = 0.0
    outcome: NonNegativeFloat = 0.0


class JudgeOptionsConfig(Section):
    """What is judged, by whom, and against which rubric."""

    event: bool = key(
        False,
        origin="ref",
        group="what is judged",
        help="Judges each turn.",
        checks="event or outcome is true",
    )
    outcome: bool = key(
        True,
        origin="ref",
        group="what is judged",
        help="Judges the whole episode.",
        checks="event or outcome is true",
    )
    provider: Name = key(
        "openai",
        origin="ref",
        group="who judges",
        help="Which API is called. It is passed on unchanged to a judge service.",
        allowed="openai, anthropic, groq, gemini; any name with base_url",
        visible_when=WITH_LLM,
    )
    model: Name | None = key(
        origin="ref",
        group="who judges",
        help="The judge model. The resolved name is printed and stored.",
        derived="the provider's default",
        checks="required with base_url",
        visible_when=WITH_LLM,
        example="gpt-5-nano",
        synonyms="judge_model",
    )
    base_url: Url | None = key(
        group="who judges",
        help="Address of any OpenAI-compatible server, used instead of the provider's.",
        why="judges can run locally",
        allowed="an http(s) URL",
        visible_when=WITH_LLM,
        example="http://127.0.0.1:8000/v1",
    )
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = key(
        group="who judges",
        help="The name of the environment variable that holds the key; never the key.",
        why="rubric.api_key_env needs a home",
        derived="by provider",
        allowed="the name of an environment variable",
        checks="the variable is set, unless the host is this machine: checked at launch",
        visible_when=WITH_LLM,
        example="OPENAI_API_KEY",
    )
    rubric_id: Name | None = key(
        origin="ref",
        group="rubric",
        help="A rubric by its id: looked up in the project's rubrics/ folder, then among the task app's, then passed "
        "to the judge service.",
        checks="it is found, else an error lists the ids: checked at start",
        example="my-rubric",
    )
    rubric_overrides: dict[str, Any] = key(
        {},
        origin="ref",
        group="rubric",
        help="Parts named event and outcome, each with goal_text, aggregation and criteria[{id, weight, scale, "
        "description, rule}]. What they give replaces the same of the rubric.",
        checks="aggregation is weighted_sum or sum; weights >= 0; with judge.type = rule every criterion has a rule",
    )
    tracks: list[str] | None = key(
        origin="ref",
        group="rubric",
        help="Keeps the criteria whose id starts with `track.`; those without a dot are of the track default.",
        derived="all",
        checks="each has a criterion, else a warning; none has: an error at start",
    )
    weights: dict[str, NonNegativeFloat] = key(
        {},
        origin="ref",
        group="rubric",
        help="Weights of the tracks: score = sum of weight x track score / sum of weights, over the tracks that have "
        "criteria. Left out: equal; a track left out of a given table weighs 0.",
        allowed="a table of numbers >= 0",
        checks="not all 0",
    )
    max_concurrency: Positive = key(10, origin="ref", group="who judges", help="Judge calls in flight.", unit="calls")
    metadata: dict[str, Any] = key(
        {}, origin="sdk", group="rubric", help="Sent to a judge service. No effect with a provider."
    )


class JudgeConfig(Section):
    """A judge scores episodes beside the environment. [verifier] is a later name of the same section.

    A judgement that fails after 2 retries excludes its episode and is counted; it is never a score of 0.
    """

    type: Literal["llm", "rule"] = key(
        "llm",
        origin="ref",
        help="llm: a model grades against a rubric. rule: criteria are checked by code, without any model call.",
        checks="openai, groq, gemini, anthropic mean llm and that provider; synth means llm through judge_url; none "
        "means enabled = false",
        visible_when=WITH_JUDGE,
    )
    # A float although the SDK's reference says int: judge.options.timeout_s, a float there, is migrated to it.
    timeout_s: PositiveFloat = key(
        30.0,
        origin="ref",
        help="Limit of one judge call, for each attempt.",
        unit="s",
        visible_when=WITH_JUDGE,
    )
    enabled: bool = key(
        False,
        origin="ref",
        help="The master switch of the judge.",
        checks="[judge.options] while it is false is a warning: configured but off",
        synonyms="use_judge",
    )
    reward_blend: RewardBlend | None = key(
        origin="ref",
        help="Weights of the environment's reward (env), the mean score of the turns (event) and the score of the "
        "episode (outcome). They are not normalised; a key left out of a given table is 0.",
        derived="env 0.5 and outcome 0.5; event 0.5 instead with outcome judging off",
        allowed="a table with env, event and outcome, numbers >= 0",
        checks="not all 0; no weight for a kind of judging that is off",
        visible_when=WITH_JUDGE,
        example={"env": 0.5, "outcome": 0.5},
    )
    event_aggregation: Literal["mean", "sum"] = key(
        "mean",
        help="How the scores of turns become one number. A sum grows with the length of an episode.",
        why="public sources sum them",
        visible_when=WITH_JUDGE,
    )
    options: JudgeOptionsConfig = section(JudgeOptionsConfig, visible_when=WITH_JUDGE)


class SmokeConfig(Section):
    """Read by `rltui smoke` only: stored with the job, ignored by training. CLI options win."""

    task_url: TaskUrl | None = key(
        origin="ref",
        group="what is tested",
        help="The app under test.",
        derived="services.task_url",
        allowed="an http(s) URL, builtin:NAME, reasoning_gym:DATASET, verifiers:NAME, or the path of a .py file",
    )
    env_name: str | None = key(
        origin="ref",
        group="what is tested",
        help="env.env_name of the requests.",
        derived="rollout.env_name, else by task info",
    )
    policy_name: str | None = key(
        origin="ref",
        group="what is tested",
        help="policy.policy_name of the requests.",
        derived='rollout.policy_name, else "react"',
    )
    max_steps: Positive = key(10, origin="ref", group="what is tested", help="Turns of one test episode.", unit="turns")
    policy: Annotated[str, Field(pattern=r"^(mock|scripted|self|human|gpt-5-nano|openai|groq|https?://[^\s/]+.*)$")] = (
        key(
            "mock",
            origin="ref",
            group="who answers",
            help="Who answers the model calls. mock: random valid arguments for the request's own tools; scripted; "
            "self: the run's own model; human: you; gpt-5-nano, openai or groq; or an OpenAI-compatible endpoint.",
            allowed="mock, scripted, self, human, gpt-5-nano, openai, groq, or an http(s) URL",
            checks="the API key must be in the environment when `rltui smoke` starts",
        )
    )
    model: Name | None = key(
        origin="ref",
        group="who answers",
        help="Model name that is sent to the provider.",
        derived="by smoke.policy; policy.model_name for self",
    )
    mock_backend: Literal["synthetic", "openai"] = key(
        "synthetic",
        origin="ref",
        group="who answers",
        help="What stands behind mock: our random answers, different for each member of a group, or a proxy to OpenAI.",
        visible_when={"smoke.policy": ("mock",)},
    )
    mock_port: Port = key(
        0,
        origin="ref",
        group="who answers",
        help="Port of the mock server; 0 is a free one.",
        visible_when={"smoke.policy": ("mock",)},
    )
    return_trace: bool = key(
        False, origin="ref", group="what is tested", help="Asks for a full trace and prints its summary."
    )
    use_mock: bool = key(False, origin="ref", group="who answers", help="true forces mock, whatever smoke.policy says.")
    task_app_name: Name | None = key(
        origin="ref",
        group="serving the app",
        help="An app to serve first: the path of a file, or a registered name.",
        checks="must be there when `rltui smoke` starts",
    )
    task_app_port: Annotated[int, Field(ge=1024, le=65535)] = key(
        8765, origin="ref", group="serving the app", help=f"Port of {WITH_OWN_APP}. It sets task_url."
    )
    task_app_env_file: Name | None = key(
        origin="ref",
        group="serving the app",
        help=f"A file of variables for {WITH_OWN_APP}. Their values are never printed.",
        checks="must be there when `rltui smoke` starts",
        example=".env",
    )
    task_app_force: bool = key(
        False,
        origin="ref",
        group="serving the app",
        help="Replaces an app that we started on that port. A process of someone else is never ended: the error "
        "names it.",
    )
    sqld_auto_start: bool = key(
        False,
        origin="ref",
        group="traces",
        help="true stores the traces of a smoke run in SQLite, at sqld_db_path. No server is started.",
    )
    sqld_db_path: Name = key(
        "./traces/local.db", origin="ref", group="traces", help="That SQLite file, made on demand."
    )
    sqld_hrana_port: Port = key(
        8080, origin="ref", group="traces", help="No effect: SQLite needs no port. Noted if changed."
    )
    sqld_http_port: Port = key(
        8081, origin="ref", group="traces", help="No effect: SQLite needs no port. Noted if changed."
    )


class CheckpointConfig(Section):
    """What is saved, how often, and what is kept."""

    synonyms = "checkpoints checkpointing saving"

    every_n_iters: NonNegative = key(
        10,
        help="A checkpoint after every n iterations, at the end, and on stop; 0: only at the end and on stop. Its "
        "name, step_N, counts updates.",
        why="a run must be resumable",
        unit="iterations",
        live=True,
        synonyms="save_steps save_every save_freq save_interval checkpoint_every checkpoint_interval",
    )
    keep_last: Positive = key(
        3,
        help="How many of the newest stay. Older ones are removed, except the best, and those that you asked for while "
        "the run was going.",
        why="disks fill",
        unit="checkpoints",
        resume=True,
        synonyms="keep_n max_ckpt_num save_total_limit",
    )
    keep_best: NonNegative = key(
        1,
        help="How many of the best stay, by evaluation reward; by training reward in a run without evaluation.",
        why="the last is often not the best",
        unit="checkpoints",
        resume=True,
        synonyms="save_best load_best_model_at_end",
    )
    dir: Name | None = key(
        help="Where checkpoints go: each run makes a folder of its own in it.",
        why="scratch disks",
        derived="checkpoints/ in the run folder",
        checks="writable: checked at start",
        synonyms="save_dir ckpt_dir ckpt_path checkpoint_dir",
    )


class InferenceConfig(Section):
    """The engine that generates, and the gateway through which task apps call it."""

    synonyms = "gateway engine"

    engine: Literal["auto", "vllm", "local"] = key(
        "auto",
        group="engine",
        help="auto: vLLM with CUDA, else the local engine. On a CPU vLLM is taken by vllm only.",
        why="CPU runs and tests",
        checks="vllm without the package is an error; auto with CUDA and no vLLM is local, with a warning",
        synonyms="backend use_vllm inference_backend inference_engine",
    )
    url: Url | None = key(
        group="engine",
        help="Uses a vLLM server that runs already, instead of starting one.",
        why="servers can be shared",
        allowed="an http(s) URL",
        checks="it answers the calls that update weights, unless weight_sync.enable is false",
        synonyms="vllm_server_url vllm_server_base_url",
    )
    gateway_host: Name = key(
        "127.0.0.1", group="gateway", help="Address that the gateway binds to.", why="task apps on other hosts"
    )
    gateway_port: Port = key(
        0, group="gateway", help="Port of the gateway; 0 is a free one.", why="firewalls and tunnels"
    )
    public_url: Url | None = key(
        group="gateway",
        help="The base of the inference_url that task apps are told.",
        why="task apps behind a tunnel or on another host",
        derived="the gateway's own address",
        allowed="an http(s) URL",
        checks="a task app on another host needs this, a tunnel, or a gateway_host that it can reach",
    )
    tunnel: Literal["none", "quick"] = key(
        "none",
        group="gateway",
        help="quick: the gateway gets a public address, used where public_url is not given.",
        why="a remote task app must reach the gateway",
        checks="the tunnel program is installed; noted when public_url is given",
    )
    startup_timeout_s: PositiveFloat = key(
        600.0,
        group="engine",
        help="How long the engine may take to start.",
        why="the time to load a model differs widely",
        unit="s",
    )


class LoggingConfig(Section):
    """Where runs are written, and which trackers are told."""

    synonyms = "log wandb trackers"

    runs_dir: Name = key(
        "./runs",
        help="Parent of the run folders, named LABEL-JOBID. `--run-dir` names the folder of one run.",
        why="runs are large",
        checks="writable: checked at start",
        resume=True,
        synonyms="out_dir output_dir log_dir logging_dir run_dir",
    )
    tensorboard: bool = key(
        False,
        help="Writes TensorBoard event files, too.",
        why="teams watch such tools already",
        checks="the package is installed: checked at launch",
        resume=True,
        synonyms="use_tensorboard tensorboard_dir",
    )
    wandb: bool | Name = key(
        False,
        help="Logs to Weights & Biases, too; offline where there is no login, or WANDB_MODE says so. A string is the "
        "project.",
        why="teams watch such tools already",
        allowed="true, false, or the name of a project",
        checks="the package is installed: checked at launch",
        resume=True,
        synonyms="use_wandb wandb_project project project_name report_to",
    )
    trackio: bool | Name = key(
        False,
        help="Logs to Trackio, too. A string is the project.",
        why="teams watch such tools already",
        allowed="true, false, or the name of a project",
        checks="the package is installed: checked at launch",
        resume=True,
        synonyms="use_trackio trackio_project",
    )
