"""An episode as foldable text: paragraphs in folds, of which those that are open are listed.

Splitting a text into paragraphs is cheap and happens when its fold opens; wrapping happens in the view, for what
it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rltui.model.episode_text import turns_of
from rltui.model.episode_top import facts_of
from rltui.model.paragraphs import Fold, Node, Paragraph
from rltui.model.xray import Xray
from rltui.sources.base import Json

VIEWS = ("conversation", "tokens", "recorded")
OPEN_CHARS = 500_000  # turns are open at first as long as all their text together is no more


@dataclass(slots=True)
class Item:
    """A paragraph in view. `fold` is what it opens and closes, `inside` the folds it lies in, outermost first."""

    paragraph: Paragraph
    fold: Fold | None
    inside: tuple[Fold, ...]


@dataclass(slots=True)
class Transcript:
    """`items` is what is unfolded, in order. view: one of VIEWS; recorded is JSON."""

    episode: Json
    updates: Json = field(default_factory=dict)
    view: str = "conversation"
    xray: Xray | None = None
    items: list[Item] = field(default_factory=list)
    _nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._build()

    def set_view(self, view: str) -> None:
        """Turns as a conversation, as tokens, or as recorded; the turns that were open stay so."""
        open_turns = [fold.open for fold in self.turns()]
        self.view = view
        self._build()
        for fold, was_open in zip(self.turns(), open_turns, strict=True):
            fold.open = was_open
        self.lay()

    def turns(self) -> list[Fold]:
        """The folds of the turns."""
        return [node for node in self._nodes if isinstance(node, Fold) and node.turn is not None]

    def toggle(self, index: int) -> int:
        """Fold or open what the item heads, else fold what it lies in; gives the item to go to."""
        item = self.items[index]
        fold = item.fold or (item.inside[-1] if item.inside else None)
        if fold is None:
            return index
        fold.open = not fold.open
        self.lay()
        return next(i for i, other in enumerate(self.items) if other.fold is fold)

    def open_all(self) -> None:
        """Every turn, and the long thinking in it."""
        self._set(True)

    def close_all(self) -> None:
        """Every turn."""
        self._set(False)

    def turn_at(self, index: int) -> int | None:
        """The turn (place in the record) that an item belongs to; None at the top."""
        if not self.items:
            return None
        item = self.items[index]
        folds = (*item.inside, item.fold)
        return next((fold.turn for fold in folds if fold is not None and fold.turn is not None), None)

    def all_items(self) -> list[Item]:
        """Every paragraph, folded ones too."""
        return list(_listed(self._nodes, (), lambda fold: True))

    def reveal(self, item: Item) -> int:
        """Open what `item` of `all_items` lies in; gives its place among `items`."""
        for fold in item.inside:
            fold.open = True
        self.lay()
        return next(i for i, other in enumerate(self.items) if other.paragraph is item.paragraph)

    def lay(self) -> None:
        """List again what is unfolded."""
        self.items = list(_listed(self._nodes, (), lambda fold: fold.open))

    def _set(self, opened: bool) -> None:
        for fold in self.turns():
            fold.open = opened
            for inner in fold.body() if opened else ():
                if isinstance(inner, Fold) and inner.thinking:
                    inner.open = True
        self.lay()

    def _build(self) -> None:
        self._nodes = [*facts_of(self.episode, self.updates), *turns_of(self.episode, self.view, self.xray)]
        chars = 0
        for fold in self.turns():
            chars += fold.chars
            fold.open = chars <= OPEN_CHARS
        self.lay()


def _listed(nodes: list[Node], inside: tuple[Fold, ...], into: Callable[[Fold], bool]) -> Iterator[Item]:
    for node in nodes:
        if isinstance(node, Paragraph):
            yield Item(node, None, inside)
            continue
        yield Item(node.head, node, inside)
        if into(node):
            yield from _listed(node.body(), (*inside, node), into)
