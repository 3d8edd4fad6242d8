"""What every section of the schema is made of."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

REQUIRED: Any = ...


def whole_address(value: str) -> str:
    """`value`, whose host and port can be read if it is an http(s) address. Raises ValueError."""
    if value.startswith(("http://", "https://")):
        if re.search(r"\s", value):
            raise ValueError("blanks in it")
        parts = urlsplit(value)
        if not parts.hostname or parts.port == 0:  # reading an odd port raises by itself
            raise ValueError("no host, or no such port")
    return value


Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
Name = Annotated[str, Field(min_length=1)]
Address = AfterValidator(whole_address)
Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+"), Address]
TASK_URL = r"^(https?://[^\s/]+|(builtin|reasoning_gym|verifiers):[\w.-]+$|.*\S\.py$)"
TaskUrl = Annotated[str, Field(pattern=TASK_URL), Address]
Scalar = bool | int | float | str


class Section(BaseModel):
    """A table of the config. Types are strict: no text for a number, no boolean for an integer, no NaN."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        protected_namespaces=(),
        defer_build=True,
    )
    synonyms: ClassVar[str] = ""  # names of such a section in other systems, blanks between them


class OpenSection(Section):
    """A table that also takes keys that are not ours."""

    model_config = ConfigDict(extra="allow")


Origin = Literal["ref", "sdk", "seen", "ours"]
META = "rltui"  # where a field keeps what pydantic has no place for


def key(
    default: Any = None,
    *,
    help: str,
    origin: Origin = "ours",
    why: str | None = None,
    group: str | None = None,
    unit: str | None = None,
    example: Any = None,
    derived: str | None = None,
    allowed: str | None = None,
    checks: str | None = None,
    visible_when: Mapping[str, Sequence[Any]] | None = None,
    live: bool = False,
    resume: bool = False,
    secret: bool = False,
    synonyms: str = "",
) -> Any:
    """A config key.

    Args:
        default: its default; `REQUIRED`: must be given when its section is; None: unset or derived.
        help: its effect, in one or two sentences. The first must make sense alone.
        origin: "ref": documented in the SDK's reference; "sdk": only in the SDK's models; "seen": an extra of
            real configs; "ours": new here.
        why: why a key of ours exists.
        group: a sub-heading, in long sections.
        unit: what its number counts.
        example: a value to paste where no default exists.
        derived: how the value follows when it is not given.
        allowed: its range in words, where the type does not tell.
        checks: rules beyond type and range, mostly over several keys.
        visible_when: a form shows it only while each of these keys has one of these values.
        live: it can be changed while a run is going (CONFIG section 3).
        resume: it may differ on `--resume`. Live keys may, too.
        secret: never shown.
        synonyms: its names in other systems, blanks between them. None is accepted in a config; each is understood
            when it is met there by mistake, or searched for.
    """
    extra = {
        "origin": origin,
        "why": why,
        "group": group,
        "unit": unit,
        "example": example,
        "derived": derived,
        "allowed": allowed,
        "checks": checks,
        "visible_when": visible_when,
        "live": live,
        "resume": resume or live,
        "secret": secret,
        "synonyms": tuple(synonyms.split()),
    }
    meta: Any = {META: {name: value for name, value in extra.items() if value not in (None, False, ())}}
    if isinstance(default, dict | list):
        return Field(default_factory=lambda: type(default)(default), description=help, json_schema_extra=meta)
    return Field(default, description=help, json_schema_extra=meta)


def section(model: type[Section], *, visible_when: Mapping[str, Sequence[Any]] | None = None) -> Any:
    """A table inside a section that may be left out. `visible_when` holds for all of its keys."""
    meta: Any = {META: {"visible_when": visible_when} if visible_when else {}}
    return Field(default_factory=model, json_schema_extra=meta)
