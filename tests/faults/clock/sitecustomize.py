"""Loaded by Python at its start: its wall clock runs off by the seconds in a file, which may change at any time."""

import datetime
import os
import time

_OFFSET = os.environ.get("RLTUI_FAULTS_CLOCK")


def _offset() -> float:
    try:
        with open(_OFFSET) as file:  # type: ignore[arg-type]
            return float(file.read())
    except (OSError, ValueError):
        return 0.0


class _Any(type):
    """The dates that C makes are of the class that we take the place of."""

    def __instancecheck__(cls, thing: object) -> bool:
        return isinstance(thing, _datetime)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, _datetime)


if _OFFSET:
    _time, _time_ns, _datetime = time.time, time.time_ns, datetime.datetime
    time.time = lambda: _time() + _offset()
    time.time_ns = lambda: _time_ns() + int(_offset() * 1e9)

    class _Shifted(_datetime, metaclass=_Any):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "_Shifted":
            return cls.fromtimestamp(time.time(), tz)

    _Shifted.__name__ = _Shifted.__qualname__ = _Shifted.__module__ = "datetime"
    datetime.datetime = _Shifted  # type: ignore[misc]
