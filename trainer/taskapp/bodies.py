"""Bodies of answers from servers that may be hostile: inflated piece by piece, and kept without our keys."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import AsyncIterator, Iterable
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from trainer.taskapp.errors import EVIDENCE_CHARS, RolloutFailure

PIECE = 1 << 16
MAX_BODY_BYTES = 64 * 2**20
MAX_VALUES = 2_000_000  # of a body: as objects an empty list takes twenty times its three bytes
ACCEPTED = {"Accept-Encoding": "gzip"}  # what `parts` can read
_SHORTEST_KEY = 8  # characters; a shorter one would be taken out of ordinary words


async def parts(response: httpx.Response) -> AsyncIterator[bytes]:
    """The body, decoded, in pieces of about `PIECE` bytes; whoever counts them can stop in time.

    httpx inflates a received block at once, and codings within one another: of a few kB come gigabytes before anybody
    can count them. Here gzip alone is read, once.

    Raises:
        httpx.HTTPError: as the library; a DecodingError for another coding, or what is no gzip.
    """
    coding = response.headers.get("content-encoding", "").strip().lower()
    if coding in ("", "identity"):
        async for block in response.aiter_raw():
            yield block
        return
    if coding != "gzip":
        raise httpx.DecodingError(f"the answer is coded as {coding[:40]!a}; only gzip was asked for")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
    async for block in response.aiter_raw():
        while block and not inflate.eof:
            try:
                piece = inflate.decompress(block, PIECE)
            except zlib.error as error:
                raise httpx.DecodingError(f"the answer is no gzip: {error}") from None
            yield piece
            block = inflate.unconsumed_tail
    yield inflate.flush()


class Answer:
    """A response whose body was read up to the size limit. leaked: our key stood in it, and was taken out."""

    def __init__(self, status: int, headers: httpx.Headers, body: bytes, too_large: bool, leaked: bool = False) -> None:
        self.status = status
        self.headers = headers
        self.body = body
        self.too_large = too_large
        self.leaked = leaked

    @property
    def evidence(self) -> str:
        return self.body[: 4 * EVIDENCE_CHARS].decode("utf-8", "replace")[:EVIDENCE_CHARS]

    def json(self) -> Any:
        """The decoded body; raises `RolloutFailure` bad_json with the byte where it ends to be JSON, or the limit
        that it is over."""
        if self.too_large:
            limit = f"{MAX_BODY_BYTES / 2**20:g} MiB"
            raise RolloutFailure("bad_json", {"over": limit}, self.evidence, retryable=False)
        if sum(map(self.body.count, (b",", b"[", b"{"))) > MAX_VALUES:
            limit = f"{MAX_VALUES:,} values"
            raise RolloutFailure("bad_json", {"over": limit}, self.evidence, retryable=False)
        try:
            text = self.body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise RolloutFailure("bad_json", {"at": error.start}, self.evidence) from None
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            at = len(text[: error.pos].encode())
            raise RolloutFailure("bad_json", {"at": at}, self.evidence) from None
        except (ValueError, RecursionError):  # an integer of thousands of digits; nesting without end
            raise RolloutFailure("bad_json", {"at": 0}, self.evidence) from None

    def json_or_none(self) -> Any:
        try:
            return self.json()
        except RolloutFailure:
            return None


async def read(response: httpx.Response, echoes: Echoes) -> Answer:
    """The body up to the size limit, without our keys: an app that echoes our headers brings them into no record."""
    body = bytearray()
    too_large = False
    async for part in parts(response):
        body += part
        if too_large := len(body) > MAX_BODY_BYTES:
            del body[4 * EVIDENCE_CHARS :]
            break
    given = bytes(body)
    content = echoes.hidden(given)
    return Answer(response.status_code, response.headers, content, too_large, content != given)


def no_cookies() -> CookieJar:
    """A jar that takes none: an answer could fill the memory with them, a header at a time."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=()))


class Echoes:
    """Our keys in what a server answers, as they are or escaped as JSON, in JSON within JSON too.

    Args:
        keys: printable ASCII.
    """

    def __init__(self, keys: Iterable[str]) -> None:
        hidden = [key for key in keys if len(key) >= _SHORTEST_KEY]
        self._plain = [key.encode() for key in hidden]
        pattern = "|".join("".join(map(_spelled, key)) for key in hidden) or r"(?!)"
        self._text, self._bytes = re.compile(pattern), re.compile(pattern.encode())
        # escapes that a key can be written in; where there are none the slower search is saved
        self._signs = [b"\\u00", *(b"\\" + char.encode() for char in '"\\/' if any(char in key for key in hidden))]

    def hidden_text(self, text: str) -> str:
        return self._text.sub("***", text)

    def hidden(self, body: bytes) -> bytes:
        """The very `body` where there is no key in it."""
        if any(sign in body for sign in self._signs):
            return self._bytes.sub(b"***", body)
        for key in self._plain:
            body = body.replace(key, b"***")
        return body


def _spelled(char: str) -> str:
    """A pattern of the ways in which JSON can spell a character of a key, nested up to three times."""
    plainly = rf"\\{{0,8}}{re.escape(char)}" if char in '"\\/' else re.escape(char)
    return rf"(?:{plainly}|\\{{1,8}}u(?i:{ord(char):04x}))"
