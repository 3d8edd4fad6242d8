"""The job server of this machine, started where it is wanted and nobody has done so."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from urllib.parse import urlsplit

from rltui import backend
from rltui.backend import BackendError
from rltui.text import clean

START_S = 60.0


def ensure_own_server(url: str) -> None:
    """At the default address: if nothing listens there, starts a server, detached, and says so on stderr.

    Raises:
        BackendError: it did not start.
    """
    if url != backend.DEFAULT_URL or _listens(url):
        return
    port = urlsplit(url).port
    # -P: a folder named `rltui` where the user happens to stand must not shadow ours
    argv = [sys.executable, "-P", "-m", "rltui", "serve", "--ensure", "--json", "--port", str(port)]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_S)
        found = json.loads(done.stdout) if done.returncode == 0 else {}
        pid = found["pid"]
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        words = clean(done.stderr, 300) if isinstance(error, KeyError | ValueError) else clean(error, 300)
        raise BackendError(f"no job server listens at {url}, and none could be started: {words}") from None
    print(
        f"rltui: started a job server at {url} (pid {pid}), runs go to {found.get('runs_dir')}; it stays when this "
        f"program ends. To stop it: kill {pid}",
        file=sys.stderr,
    )


def _listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), 2.0).close()
    except OSError:
        return False
    return True
