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
    Url,
    key,
)


class RewardBlend(Section):
    env: NonNegativeFloat = 0.0
    event: NonNegativeFloat = 0.0
    outcome: NonNegativeFloat = 0.0


class JudgeOptionsConfig(Section):
    event: bool = key(False, help="judge each turn")
    outcome: bool = key(True, help="judge the whole episode")
    provider: Name = key("openai", help="which API: openai, anthropic, groq, gemini; any name with base_url")
    model: Name | None = key(help="judge model", derived="the provider's default")
    base_url: Url | None = key(help="any OpenAI-compatible server")
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = key(
        help="name of the variable that holds the key", derived="by provider", example="OPENAI_API_KEY"
    )
    rubric_id: Name | None = key(help="rubric: looked up in rubrics/, then in the task app, then in the service")
    rubric_overrides: dict[str, Any] = key({}, help="event and outcome parts that replace the rubric's")
    tracks: list[str] | None = key(help="keep criteria whose id starts with `track.`", derived="all")
    weights: dict[str, NonNegativeFloat] = key({}, help="weights of tracks; not given: equal")
    max_concurrency: Positive = key(10, help="judge calls in flight", unit="calls")
    metadata: dict[str, Any] = key({}, help="sent to a judge service; no effect with a provider")


class JudgeConfig(Section):
    type: Literal["llm", "rule"] = key("llm", help="llm: a model grades; rule: criteria are checked by code")
    timeout_s: PositiveFloat = key(30.0, help="limit of one judge call", unit="s")
    enabled: bool = key(False, help="master switch")
    reward_blend: RewardBlend | None = key(
        help="weights of env, event and outcome; not normalised; a key left out of a given table is 0",
        derived="env 0.5 and outcome 0.5, or event 0.5 with outcome judging off",
    )
    event_aggregation: Literal["mean", "sum"] = key("mean", help="how turn scores become one number")
    options: JudgeOptionsConfig = Field(default_factory=JudgeOptionsConfig)


class SmokeConfig(Section):
    """Read by `rltui smoke` only."""

    task_url: str | None = key(help="app under test", derived="services.task_url")
    env_name: str | None = key(help="request env name", derived="rollout.env_name")
    policy_name: str | None = key(help="request policy name", derived="rollout.policy_name")
    max_steps: Positive = key(10, help="turns of one test episode", unit="turns")
    policy: Annotated[str, Field(pattern=r"^(mock|scripted|self|human|gpt-5-nano|openai|groq|https?://[^\s/]+.*)$")] = (
        key("mock", help="who answers: mock, scripted, self, human, gpt-5-nano, openai, groq, or a URL")
    )
    model: Name | None = key(help="model name sent to the provider", derived="by smoke.policy")
    mock_backend: Literal["synthetic", "openai"] = key("synthetic", help="what stands behind mock")
    mock_port: Port = key(0, help="port of the mock server; 0 is a free one")
    return_trace: bool = key(False, help="asks for a full trace and prints its summary")
    use_mock: bool = key(False, help="forces mock whatever smoke.policy says")
    task_app_name: Name | None = key(help="app to serve first: a file or a registered name")
    task_app_port: Annotated[int, Field(ge=1024, le=65535)] = key(8765, help="its port")
    task_app_env_file: Name | None = key(help="variables for the served app")
    task_app_force: bool = key(False, help="replace an app that we started on that port")
    sqld_auto_start: bool = key(False, help="store traces of the smoke run in SQLite; no server is started")
    sqld_db_path: Name = key("./traces/local.db", help="that SQLite file")
    sqld_hrana_port: Port = key(8080, help="no effect: SQLite needs no port")
    sqld_http_port: Port = key(8081, help="no effect: SQLite needs no port")


class CheckpointConfig(Section):
    every_n_iters: NonNegative = key(
        10, help="a checkpoint every n iterations, and at the end; 0: end only", unit="iterations", live=True
    )
    keep_last: Positive = key(3, help="older checkpoints are removed, except the best", resume=True)
    keep_best: NonNegative = key(1, help="how many of the best by evaluation reward are kept", resume=True)
    dir: Name | None = key(help="where checkpoints go", derived="the run folder's checkpoints/")


class InferenceConfig(Section):
    engine: Literal["auto", "vllm", "local"] = key("auto", help="auto: vLLM with CUDA, else the local engine")
    url: Url | None = key(help="use a running vLLM server instead of starting one")
    gateway_host: Name = key("127.0.0.1", help="bind address of the gateway")
    gateway_port: Port = key(0, help="its port; 0 is a free one")
    public_url: Url | None = key(help="base that task apps call", derived="the gateway's address")
    tunnel: Literal["none", "quick"] = key("none", help="quick: the gateway gets a public address")
    startup_timeout_s: PositiveFloat = key(600.0, help="wait for the engine", unit="s")


class LoggingConfig(Section):
    runs_dir: Name = key("./runs", help="parent of the run folders", resume=True)
    tensorboard: bool = key(False, help="also write TensorBoard event files", resume=True)
    wandb: bool | Name = key(False, help="also log to Weights & Biases; a string is the project", resume=True)
    trackio: bool | Name = key(False, help="also log to Trackio; a string is the project", resume=True)
