"""A run's config file with what was given beside it: a copy of it is to run as the run did."""

from __future__ import annotations

from contextlib import suppress

from rltui.cli.config.values import leaves
from rltui.model.form import Form
from rltui.model.form_values import FormError
from rltui.model.ran_with import LIVE, Json

BESIDE = ("override", "set", LIVE)  # origins of what is not in the file


def as_it_ran(text: str, name: str, resolved: Json | None) -> str:
    """`text`, the run's file, with the values that --set, a job's overrides and live changes gave the run.

    Args:
        name: of the file, in problems.
        resolved: as `run_values` gives it.
    """
    form = Form(text, name=name)
    for leaf in leaves((resolved or {}).get("values", {})).values():
        if leaf.origin in BESIDE and leaf.value is not None:
            with suppress(FormError):
                form.assign(leaf.key, leaf.value)
    return form.text
