"""`POST {P}/{id}/read`: every read of a `RunSource`, with the rows that it gives where the run lies.

Body `{read, args}`. A slice answers `{rows, cursor, more, rewind}`, lines of a log `{lines, cursor, more, back,
unfinished}`, anything else `{value}`. A cursor goes back as it came.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from rltui.server.answers import Refused
from rltui.server.reading import OpenRun, answered
from rltui.sources.base import LOG_BYTES, MAX_EVENTS, MAX_LOG_BYTES, MAX_ROWS, Json, LogSlice, RunSource, Slice
from rltui.sources.local import Seen, Sought
from trainer.rundir.lines import Cursor
from trainer.rundir.logread import Place

MAX_BODY = 64 << 10

Count = Annotated[int, Meta(ge=0, lt=1 << 53)]
Name = Annotated[str, Meta(max_length=200)]


class Read(Struct, forbid_unknown_fields=True):
    """The arguments of a read without any. A read is called by its name, with its fields."""

    def __call__(self, name: str, source: RunSource) -> Any:
        return getattr(source, name)(**msgspec.structs.asdict(self))


class ByLine(Read):
    cursor: Cursor | None = None


class ByResume(Read):
    cursor: Seen | None = None


class Dropped(Read):
    cursor: Sought | None = None


class Events(Read):
    cursor: Annotated[int, Meta(gt=-(1 << 53), lt=1 << 53)] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS)] = 1_000


class Rows(Read):
    n0: Count
    n1: Count
    most: ClassVar[int] = MAX_ROWS

    def __post_init__(self) -> None:
        if self.n1 - self.n0 > self.most:
            raise ValueError(f"at most {self.most} rows at a time")


class Index(Rows):
    fields: Annotated[list[Name], Meta(max_length=40)] | None = None


class Number(Read):
    n: Count


class Episodes(Read):
    split: Literal["train", "eval"]
    iteration: Count


class Tokens(Read):
    ref: Annotated[list[Count], Meta(min_length=3, max_length=3)] | None


class Document(Read):
    name: Literal["resolved.json", "environment.json"]


class Log(Read):
    name: Name
    cursor: Place | None = None
    limit_bytes: Annotated[int, Meta(ge=1, le=MAX_LOG_BYTES)] = LOG_BYTES
    tail: bool = False


class Answer(Read):
    control_id: Name


READS: dict[str, type[Read]] = {
    "status": Read,
    "document": Document,
    "events": Events,
    "metrics": ByResume,
    "groups": ByResume,
    "update_lines": ByResume,
    "judge": ByLine,
    "uses": ByLine,
    "dropped": Dropped,
    "episode_count": Read,
    "index": Index,
    "said": Rows,
    "episodes": Episodes,
    "episode": Number,
    "updates": Number,
    "tokens": Tokens,
    "vocabulary": Read,
    "checkpoints": Read,
    "logs": Read,
    "log": Log,
    "answer": Answer,
}


class _Body(Struct, forbid_unknown_fields=True):
    read: str
    args: msgspec.Raw = msgspec.Raw(b"{}")


async def read(request: Request, run: OpenRun) -> Response:
    name, asked = _asked(await body_of(request, MAX_BODY))

    def look() -> Json:
        if name == "status":
            return {"value": run.status(run.source)}
        try:
            return _plain(asked(name, run.source))
        except (OverflowError, ValueError, LookupError, TypeError):
            raise Refused(
                422, "invalid", f"arguments of {name}: a cursor or a place that this server never gave"
            ) from None

    return await answered(request, run, look)


def _asked(data: bytes) -> tuple[str, Read]:
    try:
        body = msgspec.json.decode(data, type=_Body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(400, "malformed", f"the body is not {{read, args}}: {error}") from None
    kind = READS.get(body.read)
    if kind is None:
        raise Refused(422, "no_such_read", f"no read {body.read[:60]!a}; there are {', '.join(READS)}")
    try:
        return body.read, msgspec.json.decode(body.args, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refused(422, "invalid", f"arguments of {body.read}: {error}") from None


def _plain(found: Any) -> Json:
    if isinstance(found, Slice):
        return {"rows": found.rows, "cursor": found.cursor, "more": found.more, "rewind": found.rewind}
    if isinstance(found, LogSlice):
        lines = {"lines": found.lines, "unfinished": found.unfinished}
        return {**lines, "cursor": found.cursor, "more": found.more, "back": found.back}
    return {"value": found}


async def body_of(request: Request, most: int) -> bytes:
    """The body, read no further than it may go. Refused: it is longer."""
    data = bytearray()
    try:
        async for part in request.stream():
            data += part
            if len(data) > most:
                raise Refused(413, "too_large", f"a body of more than {most >> 10} kB")
    except ClientDisconnect:
        raise Refused(400, "malformed", "the body broke off") from None
    return bytes(data)
