"""What threads tell the config screen; each carries only what cannot change any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from rltui.model.drafts import Draft
    from rltui.model.form import Form
    from rltui.model.form_check import Checked
    from rltui.model.form_rows import View
    from rltui.model.form_starts import Start


class Answer(Message):
    """Of a thread that was to open a config. `question`: its number; only the answer to the last one counts."""

    question = 0


class Opened(Answer):
    """A config was read. `draft`: unsaved edits of it from another time. `key`: where the cursor goes."""

    def __init__(self, form: Form, checked: Checked, view: View, draft: Draft | None, key: str) -> None:
        super().__init__()
        self.form, self.checked, self.view, self.draft, self.key = form, checked, view, draft, key


class NotOpened(Answer):
    """Why a config could not be read."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self.why = why


class Verdict(Message):
    """What the loader says of a text."""

    def __init__(self, checked: Checked, view: View) -> None:
        super().__init__()
        self.checked, self.view = checked, view


class Live(Message):
    """What is to be said of a value that is being typed. style "": nothing."""

    def __init__(self, key: str, typed: str, note: str, style: str) -> None:
        super().__init__()
        self.key, self.typed, self.note, self.style = key, typed, note, style


class Kept(Message):
    """A draft was written, or could not be: `said` is what the status says of it."""

    def __init__(self, said: str) -> None:
        super().__init__()
        self.said = said


class Outside(Message):
    """The file is another one than was read; `text` is what it is now, "" if it is gone."""

    def __init__(self, form: Form, text: str) -> None:
        super().__init__()
        self.form, self.text = form, text


class Reached(Message):
    """Whether the address in a field, that `asked` names, answered."""

    def __init__(self, asked: tuple[str, str], good: bool, said: str) -> None:
        super().__init__()
        self.asked, self.good, self.said = asked, good, said


class Starts(Message):
    """What can be opened."""

    def __init__(self, starts: list[Start]) -> None:
        super().__init__()
        self.starts = starts
