"""What the coordinator says on its own streams: words on stderr, one JSON line each on stdout."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

from trainer.errors import EXIT_OK


def say(text: object) -> None:
    """Words on stderr. It may be a log on a disk that is full."""
    with suppress(OSError, ValueError):
        print(text, file=sys.stderr, flush=True)


def tell(type_: str, *, exit_code: int = EXIT_OK, **fields: Any) -> int:
    """One JSON line for whoever started us; a reader that went away is no reason to stop. Gives `exit_code` back."""
    with suppress(OSError, ValueError):
        print(json.dumps({"type": type_, **fields}), flush=True)
    return exit_code
