"""A config that is being edited: its text, every earlier text of it, and what stands on the disk.

All edits go through `trainer.config.edit`, so whatever is not meant stays to the byte. The stack of undo holds texts:
it does not know of any widget.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rltui.cli.config.change import edited, target
from rltui.cli.config.spellings import Document
from rltui.cli.configs import read_text
from rltui.cli.output import CliError
from rltui.model.form_fix import fixed, migrated
from rltui.model.form_merge import Merged, merge
from rltui.model.form_values import FormError, meant
from trainer.config import ConfigError, Problem
from trainer.config.draft import EditError
from trainer.config.edit import UNSET, Raw
from trainer.config.keys import all_keys
from trainer.config.rewrite import rewrite
from trainer.config.save import SaveError, save

MOST_STEPS = 500  # of undo


@dataclass(frozen=True, slots=True)
class Step:
    """One edit: the texts around it, the key to show when it is undone ("" for several), and what it was in words."""

    before: str
    after: str
    key: str
    what: str


class Form:
    """
    Attributes:
        path: where it is saved; None: nowhere yet.
        name: what it is called in problems, and is saved as if nobody says otherwise.
        text: as it is now.
        disk: the file's text when it was read or saved last; None: there is no file.
        base: what "changed" is measured by: `disk`, else the text that a new config began with.
        done, undone: the edits, newest last.
    """

    def __init__(self, text: str, *, path: Path | None = None, name: str = "", base: str | None = None) -> None:
        self.path = path
        self.name = name or (str(path) if path is not None else "config.toml")
        self.text = text
        self.disk = text if path is not None else None
        self.base = text if base is None else base
        self.done: list[Step] = []
        self.undone: list[Step] = []

    @classmethod
    def open(cls, path: Path) -> Form:
        """Raises ConfigError: it cannot be read, or is no UTF-8."""
        return cls(read_text(path), path=path)

    # Edits

    @property
    def dirty(self) -> bool:
        """Whether something would be lost without a save."""
        return self.text != self.disk

    def set(self, key: str, typed: str) -> None:
        """Give `key` the value that was typed, under the name that the file has for it; "" takes the key away.

        FormError: it is no value, or it cannot be put in.
        """
        if not typed.strip():
            self.unset(key)
            return
        self.assign(key, meant(key, all_keys().get(key), typed))

    def assign(self, key: str, value: object) -> None:
        """`value`: as `edit` takes it. FormError."""
        self._put(self.with_value(key, value), key, f"{key} = {value.text if isinstance(value, Raw) else value}")

    def with_value(self, key: str, value: object) -> str:
        """The text with `key` set. FormError: it cannot be done."""
        try:
            return edited(self.text, target(Document(self.text, self.name), key, value))
        except (CliError, ConfigError, EditError) as error:
            raise FormError(str(error).removesuffix("; nothing was written")) from None

    def unset(self, key: str) -> None:
        """Take the key's line away. FormError."""
        self._put(self.with_value(key, UNSET), key, f"{key} unset")

    def fix(self, problem: Problem) -> bool:
        """Mend it. False: no edit is known for it."""
        new = fixed(self.text, self.name, problem)
        if new is None:
            return False
        self._put(new, problem.key, f"fixed {problem.key}")
        return True

    def migrated(self, old: str = "") -> tuple[str, list[Problem]]:
        """(the text with the old key `old`, or all of them, under today's names; what could not be moved)."""
        if old:
            return migrated(self.text, self.name, old) or self.text, []
        found = rewrite(self.text, self.name)
        return found.text, found.left

    def replace(self, text: str, what: str, key: str = "") -> None:
        """Another text as a whole, such as what an editor made of it."""
        self._put(text, key, what)

    def _put(self, text: str, key: str, what: str) -> None:
        if text == self.text:
            return
        self.done = [*self.done[-(MOST_STEPS - 1) :], Step(self.text, text, key, what)]
        self.undone = []
        self.text = text

    def undo(self) -> Step | None:
        """Back by one edit; None: there is none."""
        if not self.done:
            return None
        step = self.done.pop()
        self.undone.append(step)
        self.text = step.before
        return step

    def redo(self) -> Step | None:
        """Forth by one edit; None: there is none."""
        if not self.undone:
            return None
        step = self.undone.pop()
        self.done.append(step)
        self.text = step.after
        return step

    # The disk

    def outside(self) -> str | None:
        """What stands on the disk, if it is not what was read; "" if the file is gone; None: it is as it was."""
        if self.path is None:
            return None
        try:
            now = read_text(self.path)
        except ConfigError:
            return "" if not self.path.exists() else None
        return None if now == self.disk else now

    def merged(self, theirs: str) -> Merged:
        """What becomes of both. EditError: they do not go together."""
        return merge(self.disk or "", self.text, theirs)

    def rebase(self, theirs: str, text: str) -> None:
        """The disk holds `theirs` now, and the form `text`, which can be undone."""
        self.disk = self.base = theirs
        self._put(text, "", "read again")

    def save(self, path: Path | None = None) -> None:
        """Write it, over nobody's change. `path`: a new file. SaveError: it was not written."""
        where = path or self.path
        if where is None:
            raise SaveError("it has no name yet")
        save(where, self.text, was=self.disk if path is None or path == self.path else None)
        self.path, self.name = where, str(where)
        self.disk = self.base = self.text
