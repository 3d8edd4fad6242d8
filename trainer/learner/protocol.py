"""Frames between coordinator and learner (WIRE 4.6). No torch: the coordinator imports this.

The learner connects to the coordinator's socket and answers every frame by one of the same `id`. Several ranks each
have a connection: all get every frame, each answers with its `rank` and `pid`, and rank 0's answer is the learner's.

    coordinator                                       learner
    hello {schema, settings: LearnerSettings}     ->  hello {schema, rank, info: LearnerInfo}
    rehearse {}                                   ->  result {RehearsalResult} (rehearsal.py)
    anchor {updates: [[Sequence]]}                ->  result {AnchorResult}
    batch {step, sequences: [Sequence]}           ->  result {StepResult}
    sync {path, version, mode: full | lora}       ->  result {bytes, seconds, rounding_gap}
    layout {}                                     ->  result {names, dtype_names, shapes} (sending.py)
    connect {way, address, port, world_size}      ->  result {}, once all ends have met
    send {}                                       ->  result {bytes, rounding_gap, update}
    canary {prefixes, candidates: [i32]}          ->  result {logprobs: [f32]}, a row a prefix (canary.py)
    logprobs {sequences: [Sequence]}              ->  result {logprobs: [f32]}, of a dedicated reference alone
    checkpoint {path, state, optimizer}           ->  result {bytes, seconds}
    set {values}                                  ->  result {}
    stop {}                                       ->  result {}, then the process ends

A failure is answered by `error {code, message, hint, fatal}`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

NO_MEMORY = "out_of_memory"  # code of an error whose hint names the key to lower
RANK_LOST = "rank_lost"  # code of an error that tells of another rank's end, not of its cause


class LearnerSettings(msgspec.Struct):
    """All that the learner needs of the resolved config, with every default filled in."""

    model: str  # a folder that transformers loads
    trainer_mode: str  # lora, qlora, full
    dtype: str  # bfloat16, float16, float32
    seed: int
    deterministic: bool
    variety: str  # gspo, gspo_token, grpo, dr_grpo, ppo
    anchor: str  # behavior, proximal
    clip_eps_low: float
    clip_eps_high: float
    loss_aggregation: str  # sequence_mean, length_weighted
    learning_rate: float
    lr_schedule: str  # constant, linear, cosine
    warmup_steps: int
    total_steps: int
    weight_decay: float
    max_grad_norm: float
    max_seq_len: int
    micro_batch_tokens: int
    gradient_checkpointing: bool
    lora_r: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.0  # recorded in adapter_config.json; the forward pass never drops
    lora_target_modules: list[str] = msgspec.field(default_factory=lambda: ["all-linear"])
    resume_from: str | None = None  # a checkpoint folder with optimizer state
    start_adapter: str | None = None  # a folder with the adapter that the run starts from
    kl_coef: float = 0.0
    reference: str = "none"  # none, shared, dedicated: where the reference policy is computed
    episode_tokens: int = 0  # rollout.max_turns x policy.max_tokens, by which dr_grpo divides
    gamma: float = 1.0  # ppo: discount of a token
    gae_lambda: float = 0.95  # ppo
    value_coef: float = 0.5  # ppo: weight of the value loss
    base_name: str = ""  # what the user calls the base model; written into adapter_config.json
    shares_gpu: bool = False  # with an engine that wakes after each pass, and then needs what the pass took


class LearnerInfo(msgspec.Struct):
    """What was loaded, as `hello` is answered."""

    parameters: int
    trainable: int
    device: str
    dtype: str
    step: int = 0  # optimizer updates already done (resume)


class Sequence(msgspec.Struct):
    """One branch of one episode. Arrays are little-endian bytes with one entry a token."""

    n: int  # the episode's row in the index
    branch: int
    group: int  # members of a group stand next to each other; equal prompts are computed once
    ids: bytes  # i32
    mask: bytes  # u8
    logp_behavior: bytes  # f32
    advantage: float
    weight: float  # w_i
    temperature: float
    lag: int = 0  # updates made since the weights that sampled its oldest token; 0 shows numeric noise alone
    token_advantage: bytes = b""  # f32, per-turn credit (gspo_token); empty: `advantage` everywhere
    logp_reference: bytes = b""  # f32, 0 where mask is 0; of a dedicated reference, where there is a penalty
    reward: float = 0.0  # ppo, whose advantages the learner makes itself
    token_reward: bytes = b""  # f32, 0 where mask is 0; empty: all of `reward` at the last sampled token
    token_temperature: bytes = b""  # f32, where its calls differ in it; empty: `temperature` everywhere
    logp_proximal: bytes = b""  # f32, 0 where mask is 0; `take_anchor` fills it in. Empty: the anchor is the behaviour


class SequenceResult(msgspec.Struct):
    """What became of a sequence in a step, for the record."""

    n: int
    branch: int
    ratio: float  # s_i, before the update
    clip: str  # none, low, high
    gap_mean: float  # of |learner - behaviour| over its sampled tokens
    gap_sd: float
    logp_learner: bytes  # f32, one a token, 0 where mask is 0
    prox: float | None = None  # c, the geometric mean of proximal / behaviour; None under the behaviour anchor
    advantage: bytes = b""  # f32, one a token, 0 where mask is 0; ppo: what the learner made of the rewards


class RehearsalResult(msgspec.Struct):
    """What the largest passes took that a step can have."""

    tokens: int  # of the micro-batch
    longest: int  # tokens of its longest sequence
    peak_bytes: int  # of the rank that took most: reserved on its GPU; on a CPU what the process has ever held
    seconds: float
    memory_bytes: int | None = None  # of that rank's GPU


class AnchoredSequence(msgspec.Struct):
    """A sequence under the proximal anchor."""

    n: int
    branch: int
    prox: float  # c, the geometric mean over its sampled tokens of proximal / behaviour
    masked: bool  # c is outside of the band
    logp_proximal: bytes  # f32, one a token, 0 where mask is 0


class AnchorResult(msgspec.Struct):
    """Log-probabilities of an iteration's sequences under the weights before its first update."""

    low: float  # the band of c: 1 -/+ max(1 %, 3 sd_seq)
    high: float
    sequences: list[AnchoredSequence]  # in the order of the frame
    sd_seq: float | None = None  # spread of log c over sequences sampled with these very weights, last measured
    seconds: float = 0.0


class StepResult(msgspec.Struct):
    """An update, or why there was none."""

    step: int
    metrics: dict[str, float]  # names of DESIGN 7; non-finite values are left out and named in `nonfinite`
    sequences: list[SequenceResult]
    skipped: str | None = None  # why no update was made: "gradient is not finite", ...
    culprits: list[int] = []  # n of the episodes behind a non-finite value
    nonfinite: list[str] = []
    seconds: float = 0.0


def take_anchor(sequences: list[Sequence], anchor: AnchorResult) -> tuple[list[Sequence], list[AnchoredSequence]]:
    """Fills `logp_proximal` in and takes out what the mask leaves out.

    Returns:
        What a step learns from: its denominator is theirs. And what is `proximal_mask`, each with its c.
    """
    found = {(item.n, item.branch): item for item in anchor.sequences}
    items = [found[sequence.n, sequence.branch] for sequence in sequences]
    kept = [
        msgspec.structs.replace(sequence, logp_proximal=item.logp_proximal)
        for sequence, item in zip(sequences, items, strict=True)
        if not item.masked
    ]
    return kept, [item for item in items if item.masked]


def to_frame(struct: msgspec.Struct) -> dict[str, Any]:
    frame: dict[str, Any] = msgspec.to_builtins(struct, builtin_types=(bytes,))
    return frame


def from_frame(data: dict[str, Any], kind: type[T]) -> T:
    return msgspec.convert(data, kind, builtin_types=(bytes,))
