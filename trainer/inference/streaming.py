"""Growing token ids to what a streaming client may already read. Pure but for the decoder it is given.

Time is linear in the length of the answer: only the tokens since the last whole character are decoded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trainer.inference.engine import Reply
from trainer.inference.tool_parsers import END_THINK, THINK

Decode = Callable[[Sequence[int]], str]

STUCK = 32  # tokens without a whole character: the bytes are no UTF-8 and never will be


class Detokenizer:
    """Text of each new token, never half a character.

    A decoder may write a token otherwise at the beginning of a text (the leading space of SentencePiece), so new
    tokens are decoded behind the ones shown last, and the difference is what is new."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._window: list[int] = []  # the tokens shown last, then those not shown yet
        self._shown = 0  # of them
        self._before = ""  # their text

    def push(self, token_ids: Sequence[int]) -> str:
        self._window += token_ids
        text = self._decode(self._window)
        if text.endswith("\ufffd") and len(self._window) - self._shown < STUCK:
            return ""
        new = text[len(self._before) :]
        self._window = self._window[self._shown :]
        self._shown = len(self._window)
        self._before = self._decode(self._window)
        return new


class ReplyStream:
    """Deltas of one answer: (`reasoning_content` or `content`, text).

    Args:
        stops: never shown, nor any part of one.
        markers: where a tool call may begin; from there on all waits for the end. None: the format is not known, so
            everything waits.
        reasoning: whether the model thinks between tags; `thinking`: the prompt has opened the block already.
    """

    def __init__(
        self,
        decode: Decode,
        *,
        stops: Sequence[str] = (),
        markers: Sequence[str] | None = (),
        reasoning: bool = False,
        thinking: bool = False,
    ) -> None:
        self._detokenizer = Detokenizer(decode)
        self._stops, self._markers = tuple(stops), tuple(markers or ())
        self._part = "reasoning_content" if thinking else "content"
        self._undecided = reasoning  # an opening tag may still come, or be repeated
        self._held = ""  # decoded and not sent
        self._done = markers is None
        self._sent = {"reasoning_content": "", "content": ""}

    def push(self, token_ids: Sequence[int]) -> list[tuple[str, str]]:
        """What the new tokens allow to be shown."""
        self._held += self._detokenizer.push(token_ids)
        deltas: list[tuple[str, str]] = []
        while not self._done and self._held:
            if self._undecided and not self._settle_opening():
                break
            at, found = _first(self._held, self._ends())
            if found is None:
                self._emit(deltas, safe_length(self._held, self._ends()))
                break
            self._emit(deltas, at)
            if found == END_THINK and self._part == "reasoning_content":
                self._held, self._part = self._held.removeprefix(END_THINK), "content"
            else:
                self._done = True
        return deltas

    def finish(self, reply: Reply) -> list[tuple[str, str]]:
        """What of the final answer was held back."""
        return [
            (part, rest)
            for part, text in (("reasoning_content", reply.reasoning or ""), ("content", reply.text))
            if (rest := text[len(self._sent[part]) :])
        ]

    def _ends(self) -> tuple[str, ...]:
        return (*((END_THINK,) if self._part == "reasoning_content" else self._markers), *self._stops)

    def _settle_opening(self) -> bool:
        """Takes an opening tag away; False while what there is may become one."""
        text = self._held.lstrip()
        if len(text) < len(THINK) and THINK.startswith(text):
            return False
        self._undecided = False
        if text.startswith(THINK):
            self._held, self._part = text.removeprefix(THINK), "reasoning_content"
        return True

    def _emit(self, deltas: list[tuple[str, str]], end: int) -> None:
        if end:
            deltas.append((self._part, self._held[:end]))
            self._sent[self._part] += self._held[:end]
            self._held = self._held[end:]


def safe_length(text: str, ends: Sequence[str]) -> int:
    """How much of a growing text may be shown: not a tail that may become one of `ends`, nor half a character."""
    end = len(text)
    while end and text[end - 1] == "\ufffd":
        end -= 1
    hold = 0
    for stop in ends:
        for size in range(min(len(stop) - 1, end), hold, -1):
            if text.endswith(stop[:size], 0, end):
                hold = size
                break
    return end - hold


def _first(text: str, ends: Sequence[str]) -> tuple[int, str | None]:
    found = [(at, end) for end in ends if (at := text.find(end)) >= 0]
    return min(found) if found else (-1, None)
