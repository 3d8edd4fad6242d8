"""What is to be said of a field: of a value that is being typed, of a choice, and whether it wants care at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rltui.model.form import Form
    from rltui.model.form_rows import Row, View


def verdict(form: Form, row: Row, typed: str) -> tuple[str, str]:
    """(note, style) of a value that is not taken yet: the first thing that the whole config would say of its key."""
    from rltui.model.form_check import check
    from rltui.model.form_values import FormError, meant
    from trainer.config.edit import UNSET as NOTHING

    try:
        value = meant(row.key, row.known, typed) if typed.strip() else NOTHING
        text = form.with_value(row.key, value)
    except FormError as error:
        return str(error), "watch"
    checked = check(text, form.name)
    if row.key in checked.missing:
        return "must be given", "act"
    mine = [problem for problem in checked.problems if problem.key in (row.key, row.written)]
    for level, style in (("error", "act"), ("warning", "watch")):
        for problem in mine:
            if problem.level == level and problem.code != "migrated":
                return problem.why, style
    return wanted(row), "dim"


def wanted(row: Row) -> str:
    known = row.known
    if known is None:
        return ""
    was = f"was {row.value}   " if row.given else ""
    return f"{was}{known.allowed}{f' {known.unit}' if known.unit else ''}"


def needs_care(row: Row) -> bool:
    worst = row.problem
    return row.state in ("wrong", "unknown", "moved") or (worst is not None and worst.level == "warning")


def wants_care(view: View) -> bool:
    """Whether there is anything to walk to."""
    return bool(view.loose) or any(map(needs_care, view.rows))


def severity(row: Row) -> int:
    """Errors come first, then what is moved, then warnings."""
    return 0 if row.state in ("wrong", "unknown") else 1 if row.state == "moved" else 2
