"""What the config's classes have in common: they are the sections of the one schema, open to other keys."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict, ValidationError, ValidationInfo, ValidatorFunctionWrapHandler, field_validator

from trainer.config.migrations import respelled, tidy
from trainer.config.schema import Section


class View(Section):
    """A section as a program sees it. Fields, types and defaults are the schema's (CONFIG section 2); keys that it
    does not know are kept; a table that is not given is None. Values keep the spelling they were given in, also an
    old one that the loader understands. What several keys must agree on is checked by `RLConfig.resolve()`.
    """

    model_config = ConfigDict(extra="allow", frozen=False, validate_assignment=True)
    section: ClassVar[str] = ""  # its path in the config

    @field_validator("*", mode="wrap")
    @classmethod
    def _in_any_spelling(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        try:
            return handler(value)
        except ValidationError:
            key = f"{cls.section}.{info.field_name}"
            tidied = tidy(key, value)
            now = respelled(key, tidied) or {key: tidied}
            if now == {key: value}:
                raise
            if key in now:
                handler(now[key])
            return value

    def to_dict(self) -> dict[str, Any]:
        """What was given, in the spelling it was given in; no defaults. What is None counts as not given."""
        return _without_none(self.model_dump(exclude_unset=True))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }
