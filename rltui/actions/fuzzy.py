"""Finding by a few letters: how well a query fits a text, and which letters of it match. Linear in the text."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CHARS = 400  # of a text that is looked at


@dataclass(frozen=True, slots=True)
class Match:
    """`score`: higher is better. `at`: the places of the letters that match, ascending."""

    score: float
    at: tuple[int, ...] = ()


def match(query: str, text: str) -> Match | None:
    """Every word of `query` must stand in `text`, whole or as letters in order; case does not count."""
    return match_folded(fold(query).split(), fold(text))


def match_folded(terms: list[str], text: str) -> Match | None:
    """The same for words and a text that went through `fold`, which who searches again and again does once."""
    score, at = 0.0, set[int]()
    for term in terms:
        found = _whole(term, text) or _letters(term, text)
        if found is None:
            return None
        score += found.score
        at.update(found.at)
    return Match(score - len(text) / 100, tuple(sorted(at)))


def fold(text: str) -> str:
    """The beginning of `text` in lower case, character by character, so that places stay what they are."""
    text = text[:MAX_CHARS]
    return (
        text.lower() if text.isascii() else "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    )


def _whole(term: str, text: str) -> Match | None:
    best: Match | None = None
    start = text.find(term)
    while start >= 0:
        end = start + len(term)
        score = 10.0 + 5 * _begins(text, start) + 3 * (start == 0) + 2 * (end == len(text) or not text[end].isalnum())
        if best is None or score > best.score:
            best = Match(score, tuple(range(start, end)))
        start = text.find(term, start + 1)
    return best


def _letters(term: str, text: str) -> Match | None:
    """The letters in order: the first end that is reached, then back from there, which finds the narrower place."""
    end = -1
    for letter in term:
        end = text.find(letter, end + 1)
        if end < 0:
            return None
    places, at = [], end + 1
    for letter in reversed(term):
        at = text.rfind(letter, 0, at)
        places.append(at)
    places.reverse()
    spread = places[-1] - places[0] + 1 - len(term)
    starts = sum(_begins(text, place) for place in places)
    return Match(max(0.5, 4.0 + starts - spread / 2), tuple(places))


def _begins(text: str, at: int) -> bool:
    return at == 0 or not text[at - 1].isalnum()
