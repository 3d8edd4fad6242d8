"""One episode by turns, live: what the policy was told, what it answered, and in the end its rewards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from textual.binding import BindingType
from textual.message import Message

from rltui.model.smoke_test import BURST, Play, SmokeModel, calls_text, text_of
from rltui.screens.own_app import own_app
from rltui.screens.smoke.checklist import took
from rltui.smoke.events import RECORDED
from rltui.smoke.report import Json, Turn
from rltui.text import clean
from rltui.text_lines import crop, pieces, printable, wrap
from rltui.widgets.anchored import Anchored
from rltui.widgets.bindings import bindings
from rltui.widgets.lines import look_of
from rltui.words import short
from trainer.taskapp.codes import WARNINGS

LABEL = 11  # cells of the role, and a gap
ABUSED = "S13"  # the stage that makes episodes fail
ROLES = ("system", "user", "assistant", "tool")


class Part(NamedTuple):
    """A piece of text. kind: a style, or rule: a line across, whose `text` stands at its right."""

    kind: str
    label: str
    text: str


class EpisodeView(Anchored, inherit_bindings=False):
    """Shows the newest episode, until a person has turned to another one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("episode")

    class Answer(Message):
        """The person wants to type a reply."""

    class Turned(Message):
        """Another episode is shown."""

    def __init__(self, model: SmokeModel, clock: Callable[[], float]) -> None:
        super().__init__()
        self._model, self._clock = model, clock
        self._parts: list[Part] = []
        self._n: int | None = None  # the episode that is shown
        self._chosen = False  # by a person

    @property
    def play(self) -> Play | None:
        """What is shown."""
        return self._model.plays.get(self._n) if self._n is not None else None

    # Keeping up

    def update(self) -> None:
        self._choose()
        old, self._parts = self._parts, list(self._parts_of(self.play)) if self.play is not None else []
        stays_last = self.cursor[0] >= len(old) - 1
        most = max(len(old), len(self._parts))
        changed = [at for at in range(most) if old[at : at + 1] != self._parts[at : at + 1]]
        if not changed:
            return
        for at in changed:
            self.window.forget(at)
        if self.window.height and stays_last and self._parts:
            self.put((len(self._parts) - 1, len(self.window.rows(len(self._parts) - 1)) - 1))
            self._show_end()
        self.repaint(changed)

    def _show_end(self) -> None:
        """The last row at the bottom: what came before scrolls up."""
        self.window.top = self.window.walk(self.window.last(), 1 - self.window.height)

    def _choose(self) -> None:
        """The call that a person is to answer comes first; else the newest, once the one that is shown has ended."""
        numbers = self._model.numbers
        if self._chosen and self._n in self._model.plays:
            return
        self._chosen = False
        if not numbers:
            self._show(None)
        elif self.play is None or self.play.episode is not None:
            self._show(self._newest(numbers))

    def _newest(self, numbers: list[int]) -> int:
        """One that is played now; else the last one that says something of the app, which one in a crowd does not."""
        plays = self._model.plays
        going = [n for n in numbers if plays[n].episode is None and plays[n].stage != ABUSED]
        told = [n for n in numbers if plays[n].stage not in (ABUSED, BURST)]
        return going[0] if going else told[-1] if told else numbers[-1]

    def _show(self, n: int | None) -> None:
        if n != self._n:
            self._n, self._parts = n, []
            self.cursor = self.window.top = (0, 0)
            self.repaint(all=True)  # at once: a paint before the next update would ask for parts that are gone
            self.post_message(self.Turned())

    def again(self) -> None:
        """A new test has begun, or an episode that the person asked for: what comes is shown."""
        self._chosen = False
        self._show(None)

    # What it says

    def _parts_of(self, play: Play) -> Iterator[Part]:
        for number, turn in enumerate(play.turns):
            told = [took(turn.seconds)] + ([f"{turn.tokens} tokens"] if turn.tokens is not None else [])
            yield Part("rule", f"turn {number + 1}", "   ".join(told))
            yield from _messages(turn.messages_tail, first=number == 0)
            yield from _reply(turn)
            if play.episode is not None and number < len(play.episode.step_rewards):
                yield Part("strong", "reward", short(play.episode.step_rewards[number]))
        if play.tail is not None:
            yield Part("rule", f"turn {len(play.turns) + 1}", "")
            yield from _messages(play.tail, first=not play.turns)
            yield self._waiting(play)
        if play.stage == RECORDED:
            yield from self._then_and_now(play)
        elif play.episode is not None:
            yield from _outcome(play)
        elif not play.turns and play.tail is None:
            yield Part("dim", "", "waiting for the app's first call")

    def _then_and_now(self, play: Play) -> Iterator[Part]:
        yield Part("rule", "the recorded prompt", "")
        same = self._model.asks_the_same(play)
        if same is None:
            yield Part("dim", "app", f"has not begun seed {play.seed} yet: that is the next episode")
        elif same:
            yield Part("good", "app", f"begins seed {play.seed} with the same words today")
        else:
            yield Part("watch", "app", f"begins seed {play.seed} with other words today")

    def _waiting(self, play: Play) -> Part:
        if self._model.call is not None:
            return Part("live", "policy", "you: type a reply below" if self._model.running else "")
        if self._model.paused:
            return Part("watch", "paused", "space goes on, . one turn")
        return Part("dim", "policy", f"waiting {max(0.0, self._clock() - play.asked):.0f} s")

    def item_count(self) -> int:
        return len(self._parts)

    def lay_out(self, item: int, width: int) -> list[str]:
        part = self._parts[item]
        return [""] if part.kind == "rule" else wrap(printable(part.text), max(8, width - LABEL - 2))

    def row_segments(self, item: int, row: int, text: str, width: int) -> list[Segment]:
        part, look = self._parts[item], look_of(self)
        if part.kind == "rule":
            line = look.glyph("hline")
            right = f" {part.text} " if part.text else ""
            left = f" {line} {part.label} "
            fill = line * max(0, width - cell_len(left) - cell_len(right) - 2)
            return [Segment(left + fill, look.style("dim")), Segment(right, look.style("dim"))]
        label = part.label if row == 0 else ""
        style = part.kind if not part.kind.startswith("role_") else "text"
        label_style = part.kind if part.kind.startswith("role_") or part.kind in ("live", "watch", "act") else "dim"
        shown = crop(printable(label), LABEL - 1)
        return [
            Segment(f" {shown}{' ' * (LABEL - cell_len(shown))}", look.style(label_style)),
            Segment(text, look.style(style)),
        ]

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "answer":
            return self._model.call is not None
        if action in ("previous", "next"):
            return len(self._model.plays) > 1
        return super().check_action(action, parameters)

    def action_answer(self) -> None:
        self.post_message(self.Answer())

    def action_previous(self) -> None:
        self._turn(-1)

    def action_next(self) -> None:
        self._turn(1)

    def _turn(self, by: int) -> None:
        numbers = self._model.numbers
        if self._n not in numbers:
            return
        at = numbers.index(self._n) + by
        if 0 <= at < len(numbers):
            self._show(numbers[at])
            self._chosen = at < len(numbers) - 1
            self.update()

    def action_copy(self) -> None:
        if self._parts:
            lines = [f"{part.label}: {part.text}" if part.label else part.text for part in self._parts]
            own_app(self).copy("\n".join(lines), "episode")


def _messages(messages: tuple[Json, ...], *, first: bool) -> Iterator[Part]:
    for message in messages:
        role = str(message.get("role") or "?")[:20]
        if role == "assistant" and not first:
            continue  # the reply, which stands above
        kind = f"role_{role}" if role in ROLES else "role_user"
        yield from _text(kind, role, text_of(message) or "(empty)")


def _reply(turn: Turn) -> Iterator[Part]:
    if turn.error is not None:
        yield from _text("act", "refused", turn.error)
        return
    if turn.reply or not turn.tool_calls:
        yield from _text("role_assistant", "policy", turn.reply or "(empty)")
    if turn.tool_calls:
        yield from _text("role_assistant", "policy" if not turn.reply else "calls", calls_text(turn.tool_calls))


def _text(kind: str, label: str, text: str) -> Iterator[Part]:
    for at, piece in enumerate(pieces(text)):
        yield Part(kind, label if at == 0 else "", piece)


def _outcome(play: Play) -> Iterator[Part]:
    episode = play.episode
    assert episode is not None
    yield Part("rule", "end", took(episode.seconds))
    if episode.excluded is not None:
        yield Part("act", "excluded", f"{episode.excluded}: {clean(episode.sentence, 1_000)}")
    else:
        advantage = f"   A {episode.A:+.2f}" if episode.A is not None else ""
        steps = " ".join(short(reward) for reward in episode.step_rewards[:40])
        turns = f"{len(episode.turns)} turn{'' if len(episode.turns) == 1 else 's'}"
        yield Part("good" if episode.R else "strong", "R", f"{short(episode.R)}{advantage}   {turns}")
        if len(episode.step_rewards) > 1:
            yield Part("text", "by step", steps)
    for kind in episode.warnings:
        yield Part("watch", "warning", WARNINGS.get(kind, clean(kind)))
    if episode.trace is not None:
        yield Part("dim", "trace", clean(episode.trace, 400))
