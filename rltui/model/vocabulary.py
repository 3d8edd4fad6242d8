"""Token ids as text, from a tokenizer.json; no tokenizer library is needed to spell what was sampled. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from typing import Any

from rltui.sources.base import Json

PART = "·"  # a token that ends inside a character: the token that completes it shows the whole
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class Vocabulary:
    """Knows the byte-level tokens of GPT-2 and its kin, and those of SentencePiece."""

    def __init__(self, document: Json) -> None:
        model = document.get("model")
        vocab = model.get("vocab") if isinstance(model, dict) else None
        pairs: Iterable[tuple[Any, Any]] = vocab.items() if isinstance(vocab, dict) else ()
        if isinstance(vocab, list):  # unigram: [[piece, score], …]
            pairs = ((entry[0], i) for i, entry in enumerate(vocab) if isinstance(entry, list) and entry)
        self._pieces = {i: piece for piece, i in pairs if isinstance(piece, str) and isinstance(i, int)}
        self._special: dict[int, str] = {}
        for added in document.get("added_tokens") or ():
            if isinstance(added, dict) and isinstance(added.get("content"), str):
                self._special[added.get("id", -1)] = added["content"]
        self._bytes = _bytes_of_letters() if "ByteLevel" in repr(document.get("decoder")) else None

    def texts(self, ids: Iterable[int]) -> list[str]:
        """The text of each token in its place among the others; an unknown one is [id]."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        found = []
        for i in ids:
            if i in self._special:
                found.append(decoder.decode(b"", True) + self._special[i])
                decoder.reset()
            elif i in self._pieces:
                found.append(decoder.decode(self._raw(self._pieces[i])) or PART)
            else:
                found.append(f"[{i}]")
        return found

    def _raw(self, piece: str) -> bytes:
        if self._bytes is not None:
            return b"".join(bytes((self._bytes[char],)) if char in self._bytes else char.encode() for char in piece)
        if byte := _BYTE.fullmatch(piece):
            return bytes((int(byte[1], 16),))
        return piece.replace("▁", " ").encode("utf-8", "replace")


def _bytes_of_letters() -> dict[str, int]:
    """GPT-2's letters for bytes: printable ones stand for themselves, the others come from 256 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}
