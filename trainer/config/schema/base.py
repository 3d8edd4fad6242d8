"""What every section of the schema is made of."""

from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

REQUIRED: Any = ...


def whole_address(value: str) -> str:
    """`value`, whose host and port can be read if it is an http(s) address. Raises ValueError."""
    if value.startswith(("http://", "https://")):
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


class OpenSection(Section):
    """A table that also takes keys that are not ours."""

    model_config = ConfigDict(extra="allow")


def key(
    default: Any = None,
    *,
    help: str,
    unit: str | None = None,
    example: Any = None,
    derived: str | None = None,
    live: bool = False,
    resume: bool = False,
    secret: bool = False,
) -> Any:
    """A config key.

    Args:
        default: its default; `REQUIRED`: must be given when its section is; None: unset or derived.
        help: its effect, in one sentence.
        unit: what its number counts.
        example: a value to paste where no default exists.
        derived: how the value follows when it is not given.
        live: it can be changed while a run is going (CONFIG section 3).
        resume: it may differ on `--resume`. Live keys may, too.
        secret: never shown.
    """
    extra = {
        "unit": unit,
        "example": example,
        "derived": derived,
        "live": live,
        "resume": resume or live,
        "secret": secret,
    }
    meta = {name: value for name, value in extra.items() if value not in (None, False)}
    factory = isinstance(default, dict | list)
    if factory:
        return Field(default_factory=lambda: type(default)(default), description=help, json_schema_extra=meta)
    return Field(default, description=help, json_schema_extra=meta)
