"""What is trained, on which machine: [algorithm] [services] [compute] [vllm] [policy]."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from trainer.config.schema.base import (
    REQUIRED,
    Name,
    NonNegative,
    OpenSection,
    Positive,
    PositiveFloat,
    Scalar,
    Section,
    TaskUrl,
    Url,
    key,
    section,
)

WITH_VLLM = {"inference.engine": ("auto", "vllm")}


def _a_count_or_off(value: int) -> int:
    if value == 0:
        raise ValueError("0 tokens can never be sampled from")
    return value


class AlgorithmConfig(Section):
    """What kind of training this is, and by which loss. All three keys must be given."""

    synonyms = "algo"

    type: Literal["online"] = key(
        REQUIRED,
        origin="ref",
        help="Episodes are sampled from the policy while it is trained. There is no other type.",
        checks="case and outer spaces are ignored",
        example="online",
    )
    method: Literal["policy_gradient", "ppo"] = key(
        REQUIRED,
        origin="ref",
        help="Where advantages come from. policy_gradient: from comparing the episodes of a group, without a critic; "
        "ppo: from a learned value head and GAE.",
        example="policy_gradient",
    )
    variety: Literal["gspo", "gspo_token", "grpo", "dr_grpo", "ppo"] = key(
        REQUIRED,
        origin="ref",
        help="The loss. gspo and gspo_token have one ratio for the whole episode, grpo, dr_grpo and ppo one for each "
        "token.",
        checks="policy_gradient goes with gspo, gspo_token, grpo and dr_grpo; ppo goes with ppo",
        example="gspo",
        synonyms="adv_estimator advantage_estimator loss_type loss_fn algo",
    )


class ServicesConfig(Section):
    """The programs that the run talks to."""

    task_url: TaskUrl = key(
        REQUIRED,
        origin="ref",
        help="The task app: its URL, or the builtin:NAME or .py file that the run serves. reasoning_gym:DATASET is a "
        "data set of that package, verifiers:NAME an installed environment of that one. The app is asked for its "
        "health, its tasks and every rollout.",
        allowed="an http(s) URL, builtin:NAME, reasoning_gym:DATASET, verifiers:NAME, or the path of a .py file",
        checks="the variable TASK_APP_URL can stand in for it; the host of a template is refused at launch",
        example="builtin:facts",
        synonyms="env_url environment_url task_app task_app_url app_url",
    )
    judge_url: Url | None = key(
        origin="ref",
        help="Base URL of a judge service. With the judge enabled, scores come from its /judge/v1/score instead of "
        "a model provider.",
        allowed="an http(s) URL",
        checks="not contacted, and said so, while judge.enabled is false",
        synonyms="rm_url reward_model_url remote_rm_url",
    )


class TopologyConfig(Section):
    """How the GPUs of one machine are shared out. All of it is derived when the section is left out.

    On a CPU the three counts are ignored, with one warning.
    """

    type: Literal["single_node_split", "single_node_colocate", "cpu"] | None = key(
        origin="ref",
        help="Split: engine and learner own disjoint GPUs. Colocate: they share, and the engine sleeps during updates.",
        derived="single_node_split from 2 GPUs, single_node_colocate with 1, cpu with 0",
        checks="a split needs 2 GPUs",
        resume=True,
    )
    gpus_for_vllm: NonNegative | None = key(
        origin="ref",
        help="GPUs of the inference engine. Its replicas are this number / tensor_parallel.",
        unit="GPUs",
        derived="gpu_count - ref - max(1, (gpu_count - ref) // 2), in whole replicas, at least one",
        checks="with a split the three counts sum to gpu_count; divisible by tensor_parallel",
        resume=True,
    )
    gpus_for_training: NonNegative | None = key(
        origin="ref",
        help="Learner ranks, one a GPU: sharded for full and lora, replicas for qlora.",
        unit="GPUs",
        derived="gpu_count - gpus_for_ref - gpus_for_vllm",
        checks="with a split >= 1, and the three counts sum to gpu_count",
        resume=True,
    )
    gpus_for_ref: NonNegative | None = key(
        origin="sdk",
        help="GPUs that hold the reference model.",
        unit="GPUs",
        derived="1 if reference_placement is dedicated, else 0",
        checks=">= 1 with reference_placement dedicated, else 0; idle, and said so, while kl_coef is 0",
        resume=True,
    )
    tensor_parallel: Positive | None = key(
        origin="ref",
        help="GPUs of one engine replica.",
        unit="GPUs",
        derived="vllm.tensor_parallel_size, else 1",
        checks="equal to vllm.tensor_parallel_size if both are given",
        resume=True,
        synonyms="tp tp_size vllm_tensor_parallel_size tensor_model_parallel_size",
    )
    reference_placement: Literal["none", "shared", "dedicated"] = key(
        "none",
        origin="ref",
        help="Where the reference model of the KL penalty lives. none: there is no reference; shared: on the "
        "learner's GPUs, for LoRA without an extra copy (the adapter is switched off); dedicated: on GPUs of its "
        "own.",
        checks="not none while training.kl_coef > 0",
        resume=True,
    )


class ComputeConfig(Section):
    """The machine. Without this section it is inspected, and the split derived."""

    synonyms = "hardware resources cluster"

    gpu_type: Name | None = key(
        origin="ref",
        help="Compared with the name of the device that is found: another one is a warning. On Ray and Slurm it is "
        'part of the resource request. "H100:4" gives type and count.',
        derived="as detected",
        checks="given together with gpu_count",
        example="H100",
        resume=True,
    )
    gpu_count: NonNegative | None = key(
        origin="ref",
        help="GPUs that this run may use, counted over all nodes: the first ones that are visible. With 0, or where "
        "none is found, the run takes place on the CPU.",
        unit="GPUs",
        derived="as detected",
        checks="fewer found than asked for is a warning, and the split is derived again",
        example=2,
        resume=True,
        synonyms="gpus num_gpus n_gpus n_gpus_per_node num_gpus_per_node world_size",
    )
    nodes: Positive = key(
        1,
        origin="sdk",
        help="Nodes that are requested from Ray or Slurm. gpu_count stays the number of the whole run.",
        unit="nodes",
        checks="> 1 needs a launcher other than local",
        visible_when={"compute.launcher": ("ray", "slurm")},
        resume=True,
        synonyms="nnodes num_nodes n_nodes",
    )
    launcher: Literal["local", "ray", "slurm"] = key(
        "local",
        help="How the coordinator places inference engines and learner ranks.",
        why="nodes means nothing without it",
        checks="ray has to be installed where the coordinator is",
        resume=True,
    )
    launcher_options: dict[str, Scalar] = key(
        {},
        allowed="a table of strings, numbers and booleans",
        help="Passed to the launcher's resource request: partition, account, time, address and the like. On Slurm any "
        "option of sbatch by its long name, and `setup`: lines of shell that come before the start.",
        why="clusters have rules of their own",
        checks="plain values only",
        visible_when={"compute.launcher": ("ray", "slurm")},
        resume=True,
    )
    topology: TopologyConfig = section(TopologyConfig)


class MultimodalLimits(OpenSection):
    """How many items of each kind one prompt may hold. Other kinds that the engine knows belong here, too."""

    image: NonNegative | None = key(
        origin="seen",
        help="Images of one prompt, passed to the engine. The learner reads text only: an episode with images in "
        "its prompt is excluded.",
        unit="images",
        visible_when=WITH_VLLM,
    )


class VllmConfig(OpenSection):
    """Options of the inference engine. The local engine honours max_model_len, max_num_seqs and tool_call_parser.

    Any other option that the installed vLLM knows can be given here and is passed on (`_` becomes `-`). Options
    that the gateway depends on (port, logprobs mode, scale-out endpoints, LoRA flags) are refused with the reason.
    """

    synonyms = "vllm_config"

    tensor_parallel_size: Positive | None = key(
        origin="seen",
        help="GPUs of one engine replica: another name of compute.topology.tensor_parallel.",
        unit="GPUs",
        derived="compute.topology.tensor_parallel",
        checks="equal to compute.topology.tensor_parallel if both are given",
        visible_when=WITH_VLLM,
    )
    max_model_len: Positive | None = key(
        origin="seen",
        help="Context limit of engine and gateway. A longer prompt gets a context error, and the episode stops with "
        "context_overflow.",
        unit="tokens",
        derived="min(8192, the model's limit), once the model is known",
        checks="> policy.max_tokens; at most the model's own limit",
        synonyms="context_length max_context_len max_context_length",
    )
    gpu_memory_utilization: Annotated[float, Field(gt=0, lt=1)] | None = key(
        origin="seen",
        help="The engine's share of the memory of its GPUs.",
        derived="0.45 when colocated, else 0.9",
        visible_when=WITH_VLLM,
        synonyms="vllm_gpu_memory_utilization",
    )
    max_num_seqs: Positive | None = key(
        origin="seen",
        help="How many sequences the engine decodes at once.",
        unit="sequences",
        derived="vllm.max_parallel_generations, else the engine's own",
    )
    enforce_eager: bool = key(
        False,
        origin="seen",
        help="Runs the engine without CUDA graphs: slower, and with less memory.",
        visible_when=WITH_VLLM,
    )
    max_parallel_generations: Positive | None = key(
        origin="seen", help="Sets max_num_seqs where that is not given.", unit="sequences"
    )
    limit_mm_per_prompt: MultimodalLimits = section(MultimodalLimits)
    tool_call_parser: Name | None = key(
        help="Which parser finds tool calls in sampled text: hermes, llama-json or qwen of ours, or one of the "
        "engine's by its name.",
        why="a chat template does not always give it away",
        derived="by the chat template",
        checks="an app that offers tools, with a template for which no parser is known, is an error at start",
    )


class PolicyConfig(Section):
    """The policy is the model that is trained. It starts from model_name or from source: one of the two."""

    synonyms = "actor model_config"

    model_name: Name | None = key(
        origin="ref",
        group="model",
        help="Start weights: a folder, a hub id, or a builtin: name. Any causal language model will do; an id that "
        "cannot be found, cached or by download, fails before any GPU is taken.",
        checks="exactly one of model_name and source",
        example="builtin:smollm2-135m",
        synonyms="model model_id model_path model_name_or_path base_model pretrain pretrained_model_name_or_path",
    )
    source: Name | None = key(
        origin="ref",
        group="model",
        help="Starts from a checkpoint: ft:JOB[@STEP], rl:BASE:JOB, or a checkpoint folder. An adapter continues as "
        "an adapter.",
        checks="exactly one of model_name and source; at the start: that it is there",
        example="ft:my-job@40",
    )
    trainer_mode: Literal["lora", "qlora", "full"] = key(
        REQUIRED,
        origin="ref",
        group="model",
        help="lora: an adapter only; qlora: an adapter on a 4-bit base; full: all weights. full keeps an fp32 master "
        "copy: 16-18 bytes a parameter.",
        checks="qlora needs CUDA and bitsandbytes: checked at launch; and vLLM: checked at the start",
        example="lora",
        synonyms="use_lora use_peft peft peft_type finetuning_type",
    )
    label: Name = key(
        REQUIRED,
        origin="ref",
        group="model",
        help="Name of the run: first part of its folder, job name and model id. In paths, characters outside "
        "`[A-Za-z0-9._-]` become `-`.",
        example="my-model",
        synonyms="run_name exp_name experiment_name job_name",
    )
    max_tokens: Positive = key(
        512,
        origin="sdk",
        group="sampling",
        help="Longest completion of one model call. It is told to the task app and enforced by the gateway.",
        unit="tokens",
        checks="< vllm.max_model_len",
        synonyms="max_new_tokens max_completion_length max_completion_tokens response_length max_response_length",
    )
    temperature: PositiveFloat = key(
        0.7,
        origin="sdk",
        group="sampling",
        help="Sampling temperature of training rollouts. The learner divides logits by the temperature that each "
        "call was recorded with.",
        checks="at 0 the members of a group would be identical and give no gradient",
        live=True,
        synonyms="sampling_temperature",
    )
    top_p: Annotated[float, Field(gt=0, le=1)] = key(
        1.0,
        origin="sdk",
        group="sampling of evaluation",
        help="Nucleus sampling, in evaluation only, while its temperature is > 0. Training always samples the plain "
        "distribution: a cut one biases every ratio.",
        checks="< 1 is a warning (the SDK's default was 0.95)",
    )
    top_k: Annotated[int, Field(ge=-1), AfterValidator(_a_count_or_off)] | None = key(
        origin="sdk",
        group="sampling of evaluation",
        help="Samples from the k most likely tokens, in evaluation only, as top_p. -1 or left out: off.",
        allowed="an integer >= 1, or -1 (off)",
        unit="tokens",
    )
    repetition_penalty: PositiveFloat = key(
        1.0,
        origin="sdk",
        group="sampling of evaluation",
        help="Makes tokens that occurred before less likely, in evaluation only, as top_p. 1.0 is off.",
    )
    stop_sequences: Annotated[list[str], Field(max_length=16)] = key(
        [],
        origin="sdk",
        group="sampling",
        help="Texts at which a completion ends, sent as `stop`. What matched stays in the trained tokens, as it was "
        "sampled.",
        synonyms="stop stop_words stop_strings",
    )
    inference_url: Url | None = key(
        origin="sdk",
        group="smoke test",
        help="Where `rltui smoke` sends model calls when it is not mocked. Training ignores it, with a note: weights "
        "cannot be synced to a server that the run does not own.",
        allowed="an http(s) URL",
        checks="for training see inference.url",
    )
