"""Wire models of the task app contract (WIRE 1), lenient on both sides, and the rollout request body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

Json = dict[str, Any]


class Lenient(BaseModel):
    """Keeps extras; a part that is missing, null or of a wrong type reads as missing."""

    model_config = ConfigDict(extra="allow")

    @field_validator("*", mode="wrap")
    @classmethod
    def _broken_is_missing(cls, value: object, handler: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[info.field_name or ""]
        if value is None:
            return field.get_default(call_default_factory=True)
        try:
            return handler(value)
        except ValidationError:
            return field.get_default(call_default_factory=True)

    @classmethod
    def read(cls, value: object) -> Self:
        """Reads any JSON; what is not an object gives the empty model."""
        return cls.model_validate(value if isinstance(value, dict) else {})


class TaskDescriptor(Lenient):
    id: str | None = None
    name: str | None = None
    description: str | None = None
    version: str | None = None


class DatasetInfo(Lenient):
    id: str | None = None
    name: str | None = None
    version: str | None = None
    splits: list[str] | None = None
    default_split: str | None = None
    description: str | None = None
    sizes: dict[str, int] | None = None


class RubricCriterion(Lenient):
    id: str | None = None
    description: str | None = None
    weight: float | None = None


class RubricSection(Lenient):
    name: str | None = None
    criteria: list[RubricCriterion] = []


class RubricInfo(Lenient):
    outcome: RubricSection | None = None
    events: RubricSection | None = None


class InferenceInfo(Lenient):
    model: str | None = None
    inference_url: str | None = None


class LimitsInfo(Lenient):
    max_turns: int | None = None
    max_response_tokens: int | None = None
    timeout_seconds: float | None = None


class TaskInfo(Lenient):
    """One task instance, as `GET /task_info?seed=N` describes it."""

    task: TaskDescriptor = TaskDescriptor()
    environment: str | None = None
    dataset: DatasetInfo = DatasetInfo()
    rubric: RubricInfo = RubricInfo()
    inference: InferenceInfo = InferenceInfo()
    limits: LimitsInfo = LimitsInfo()
    task_metadata: Json = {}


class Taskset(DatasetInfo):
    """`GET /task_info` without a seed: `{taskset: ...}`, or the older `{dataset: ...}`."""

    @classmethod
    def of(cls, body: object) -> Taskset:
        """The task set of an answer; one without any gives the empty model."""
        body = body if isinstance(body, dict) else {}
        taskset = cls.read(body.get("taskset"))
        if taskset.sizes is None:
            taskset.sizes = DatasetInfo.read(body.get("dataset")).sizes
        return taskset


class ServiceInfo(Lenient):
    """`GET /info`. An app without it reads as the empty model."""

    service: Json = {}
    dataset: DatasetInfo = DatasetInfo()
    rubrics: RubricInfo = RubricInfo()
    inference: InferenceInfo = InferenceInfo()
    limits: LimitsInfo = LimitsInfo()


class _RequestPart(BaseModel):
    """Part of a request as our server reads it: extras are kept, null means the default."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _null_is_default(cls, value: Any) -> Any:
        return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value


class RolloutEnvSpec(_RequestPart):
    env_id: str | None = None
    env_name: str | None = None
    config: Json = Field(default_factory=dict)
    seed: int | None = None


class RolloutPolicySpec(_RequestPart):
    policy_id: str | None = None
    policy_name: str | None = None
    config: Json = Field(default_factory=dict)
    output_mode: str = "tool_calls"
    structured_config: Json | None = None


class RolloutSafetyConfig(_RequestPart):
    max_ops: int = 100_000
    max_time_s: float = 3600.0


class RolloutRequest(_RequestPart):
    """What our server accepts: `run_id` (older clients) or `trace_correlation_id` (newer), either alone."""

    run_id: str = Field(min_length=1, validation_alias=AliasChoices("run_id", "trace_correlation_id"))
    trace_correlation_id: str = Field(min_length=1, validation_alias=AliasChoices("trace_correlation_id", "run_id"))
    env: RolloutEnvSpec
    policy: RolloutPolicySpec
    ops: list[Any] = Field(default_factory=list)
    mode: str = "rl"
    record: Json = Field(default_factory=dict)
    on_done: str = "reset"
    safety: RolloutSafetyConfig = Field(default_factory=RolloutSafetyConfig)
    training_session_id: str | None = None
    synth_base_url: str | None = None


def rollout_request(
    *,
    cid: str,
    inference_url: str,
    inference_base_url: str,
    env_name: str,
    policy_name: str,
    seed: int,
    max_turns: int,
    model: str,
    temperature: float,
    top_p: float,
    max_tokens: int,
    env_config: Json | None = None,
    policy_config: Json | None = None,
    split: str | None = None,
    stop: Sequence[str] = (),
    ops: Sequence[str] = ("agent", "env"),
    on_done: str = "reset",
    timeout_s: float = 600.0,
    job_id: str | None = None,
    job_api_url: str | None = None,
    judge_on: bool = False,
    mode: str = "rl",
) -> Json:
    """The body of `POST /rollout`: one superset for every version of the contract (WIRE 1.4).

    `policy_config` (`rollout.policy_config` and the thinking fields) wins over ours, except for the fields
    that name this episode: the inference URLs and `trace_correlation_id`. `output_mode` and
    `structured_config` move to the policy level.
    """
    overlay = dict(policy_config or {})
    output_mode = overlay.pop("output_mode", "tool_calls")
    structured_config = overlay.pop("structured_config", None)
    config: Json = {"model": model, "temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
    if stop:
        config["stop"] = list(stop)
    config |= overlay
    config |= {
        "inference_url": inference_url,
        "inference_base_url": inference_base_url,
        "trace_correlation_id": cid,
    }
    environment: Json = dict(env_config or {})
    environment.setdefault("max_turns", max_turns)
    if split is not None:
        environment.setdefault("split", split)
    body: Json = {
        "run_id": cid,
        "trace_correlation_id": cid,
        "env": {"env_id": None, "env_name": env_name, "config": environment, "seed": seed},
        "policy": {
            "policy_id": None,
            "policy_name": policy_name,
            "config": config,
            "output_mode": output_mode,
            "structured_config": structured_config,
        },
        "ops": list(ops) * max_turns,
        "mode": mode,
        "record": {
            "trajectories": True,
            "logprobs": False,
            "value": False,
            "return_trace": True,
            "trace_format": "structured" if judge_on else "compact",
        },
        "on_done": on_done,
        "safety": {"max_ops": 4 * max_turns, "max_time_s": timeout_s},
    }
    if job_id is not None:
        body["training_session_id"] = job_id
    if job_api_url is not None:
        body["synth_base_url"] = job_api_url
    return body
