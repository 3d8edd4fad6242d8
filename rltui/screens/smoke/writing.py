"""What the screen writes: the report, and the group_size that it advises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rltui.cli.config.change import edited, effect, target
from rltui.cli.config.spellings import Document
from rltui.cli.configs import read_text, refuse_json, refuse_record
from rltui.cli.output import CliError
from rltui.smoke.kept import kept_file, write_report
from rltui.smoke.report import Report, to_json
from trainer.config import ConfigError
from trainer.config.save import SaveError, save

GROUP_SIZE = "training.group_size"


class NotWritten(Exception):
    """The text says why."""


def set_group_size(path: Path, size: int) -> None:
    """As `rltui config set FILE training.group_size SIZE` does. Raises NotWritten."""
    try:
        refuse_json(path)
        refuse_record(path)
        before = read_text(path)
        targets = target(Document(before, str(path)), GROUP_SIZE, size)
        after = edited(before, targets)
        broken = effect(before, after, str(path), [item.key for item in targets]).broken
        if broken:
            raise NotWritten(f"{broken[0].key}: {broken[0].why}; nothing was written")
        save(path, after, was=before)
    except ConfigError as error:
        raise NotWritten(str(error.problems[0].why)) from None
    except (CliError, SaveError) as error:
        raise NotWritten(str(error)) from None


def keep(report: Report) -> None:
    """Where the launch checks look for it; nothing without a config. OSError."""
    if report.config_hash is not None:
        write_report(kept_file(report.config_hash), to_json(report))


def export(report: Report, path: Path) -> None:
    """To a file of the person's choice, and to where the launch checks look. Raises NotWritten."""
    if path.is_dir():
        raise NotWritten(f"{path} is a folder")
    if path.exists() and path.suffix != ".json":
        raise NotWritten(f"no .json file, and already there: {path}")
    try:
        write_report(path, to_json(report))
        keep(report)
    except OSError as error:
        raise NotWritten(f"{path} could not be written: {error.strerror or error}") from None


def file_name(report: Report) -> str:
    """A name for the report of this app."""
    app: Any = report.app.get("app_id") or report.app.get("id") or report.target
    word = "".join(char if char.isalnum() and char.isascii() else "-" for char in str(app)).strip("-")
    return f"smoke-{word[-40:].strip('-') or 'report'}.json"
