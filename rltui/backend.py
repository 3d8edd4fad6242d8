"""The client of a job server (WIRE 3): plain requests, the event stream, downloads. Nothing here blocks an import."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rltui.smoke.net import is_loopback
from rltui.sources.base import TERMINAL
from rltui.text import clean

if TYPE_CHECKING:
    import httpx

Json = dict[str, Any]

DEFAULT_URL = "http://127.0.0.1:8787/api"
SILENCE_S = 30.0  # of an event stream, whose server sends something every 10 s
PATIENCE_S = 300.0  # without any answer, until a stream or a download gives up
WAITS_S = (0.5, 1.0, 2.0, 4.0, 8.0)  # between tries to connect again; then the last one


class BackendError(RuntimeError):
    """The server refused a request (`status` is its HTTP status) or did not answer (None).

    Attributes:
        code: the server's word for it, such as "not_found"; None where it gave none.
        detail: one sentence.
        body: the answer as it was given, at most some kB; None where there was no JSON object.
    """

    def __init__(self, detail: str, status: int | None = None, code: str | None = None, body: Json | None = None):
        super().__init__(detail)
        self.status, self.code, self.detail, self.body = status, code, detail, body

    @property
    def passing(self) -> bool:
        """Whether asking again may get another answer soon: none came, or the server is starting, ending, overrun."""
        return self.status is None or self.status in (408, 425, 429) or self.status >= 500


def normal_url(url: str) -> str:
    """An address as it is used here: http or https, no slash at the end, `/api` put there if it is missing.

    Raises:
        ValueError: it is no such address.
    """
    text = url.strip().rstrip("/")
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"not the address of a job server: {url!r}; give one such as {DEFAULT_URL}")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("the address of a job server has no user, query or fragment; its token goes in RLTUI_API_KEY")
    return text if text.endswith("/api") else f"{text}/api"


def backend_url(argument: str | None = None, env: Mapping[str, str] = os.environ) -> str:
    """The job server that is meant (WIRE 4.3): the argument, else the environment, else this machine's own.

    Raises:
        ValueError: the one that is named is no http address.
    """
    mode = env.get("SYNTH_BACKEND_URL_OVERRIDE", "").strip().lower()
    named = [argument, env.get("BACKEND_BASE_URL"), env.get("BACKEND_OVERRIDE")]
    if mode in ("local", "dev", "prod"):
        named.append(env.get(f"{mode.upper()}_BACKEND_URL"))
    return normal_url(next((text for text in named if text and text.strip()), DEFAULT_URL))


def named_token(env: Mapping[str, str] = os.environ) -> str | None:
    """The token to show: RLTUI_API_KEY, else SYNTH_API_KEY."""
    return env.get("RLTUI_API_KEY", "").strip() or env.get("SYNTH_API_KEY", "").strip() or None


class Backend:
    """One job server. Paths start with `/` and follow its `/api`; also an address of its own origin will do.

    Redirects are not followed, so that the token never leaves the server. May be used by several threads.

    Args:
        token: default: `named_token()`.
        timeout_s: of one try to connect, and of each wait for bytes.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout_s: float = 10.0) -> None:
        import httpx

        self.url = normal_url(url)
        token = (token or "").strip() or named_token()
        self._http = httpx.Client(
            headers={"User-Agent": _own_name(), **({"Authorization": f"Bearer {token}"} if token else {})},
            timeout=timeout_s,
            trust_env=not is_loopback(self.url),
        )

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Backend:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, path: str, **params: Any) -> Json:
        """The JSON object at a path; parameters that are None are left out. Raises BackendError."""
        return self._json("GET", path, params={name: value for name, value in params.items() if value is not None})

    def post(
        self, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, timeout_s: float | None = None
    ) -> Json:
        """Sends JSON ({} where `body` is None) and gives the JSON object that answers. Raises BackendError."""
        more = {} if timeout_s is None else {"timeout": timeout_s}
        return self._json("POST", path, json={} if body is None else body, headers=dict(headers or {}), **more)

    def events(self, path: str, since: int = 0) -> Iterator[Json]:
        """The stored events after `since`, each once, as they come; ends after the last one of a job that has ended.

        `path`: `/rl/jobs/ID/events/stream` or another such. A lost connection is made again, and goes on by seq;
        heartbeats are left out.

        Raises:
            BackendError: refused, or no answer for PATIENCE_S.
        """
        import httpx

        tries, silent_since = 0, time.monotonic()
        while True:
            try:
                for event in self._stream(path, since):
                    tries, silent_since = 0, time.monotonic()
                    if event is not None and event["seq"] > since:
                        since = event["seq"]
                        yield event
                        silent_since = time.monotonic()  # whoever reads may take their time
                if self._is_over(path, since):
                    return
            except (httpx.HTTPError, BackendError) as error:
                if isinstance(error, BackendError) and not error.passing:
                    raise
                if time.monotonic() - silent_since > PATIENCE_S:
                    raise self._no_answer(error) from None
            time.sleep(WAITS_S[min(tries, len(WAITS_S) - 1)])
            tries += 1

    def download(self, path: str, to: Path, *, sha256: str | None = None) -> None:
        """Fetches a file to `to` (mode 0600), going on where an earlier try ended: what there is lies in `to`.part.

        Raises:
            BackendError: refused, no answer for PATIENCE_S, or other bytes than `sha256` says (`code` "checksum";
                the part is removed, so the next call begins anew).
            OSError: it cannot be written.
        """
        import httpx

        address, part = self._address(path), to.with_name(to.name + ".part")
        tries, silent_since = 0, time.monotonic()
        while True:
            had = part.stat().st_size if part.exists() else 0
            try:
                self._fetch(address, part, had)
                break
            except (httpx.HTTPError, BackendError) as error:
                if isinstance(error, BackendError) and not error.passing:
                    raise
                if part.exists() and part.stat().st_size > had:
                    tries, silent_since = 0, time.monotonic()
                if time.monotonic() - silent_since > PATIENCE_S:
                    raise self._no_answer(error) from None
            time.sleep(WAITS_S[min(tries, len(WAITS_S) - 1)])
            tries += 1
        if sha256 is not None and _digest(part) != sha256:
            part.unlink()
            raise BackendError(f"{to.name} came with other bytes than the server says; fetch it again", code="checksum")
        os.replace(part, to)

    def _fetch(self, address: str, part: Path, had: int) -> None:
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={had}-"} if had else {})}
        with self._http.stream("GET", address, headers=headers) as answer:
            if answer.status_code == 416 and answer.headers.get("Content-Range") == f"bytes */{had}":
                return  # all of it is here
            if answer.status_code == 416:
                part.unlink()
                raise BackendError("the file has become shorter", status=503)
            if answer.status_code not in (200, 206):
                answer.read()
                raise _refusal(answer)
            whole = answer.status_code == 200
            if not whole and not answer.headers.get("Content-Range", "").startswith(f"bytes {had}-"):
                raise BackendError("the server answered with another part of the file than was asked for", status=502)
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if whole else os.O_APPEND)
            with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
                for piece in answer.iter_raw():
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())

    def _stream(self, path: str, since: int) -> Iterator[Json | None]:
        """One connection: its events, and None for each sign of life that is none."""
        import httpx

        timeout = httpx.Timeout(self._http.timeout.connect, read=SILENCE_S)
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(since)}
        params = {"since_seq": since}
        with self._http.stream("GET", self._address(path), params=params, headers=headers, timeout=timeout) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refusal(answer)
            for line in _lines(answer):
                yield _stored_event(line)

    def _is_over(self, path: str, seq: int) -> bool:
        """Whether a stream that was closed has nothing to add: the job has ended, and its last event was read."""
        job_path, suffix, _ = path.partition("/events")
        if not suffix:
            return False
        job = self.get(job_path)
        return job.get("status") in TERMINAL and seq >= int(job.get("last_seq") or 0)

    def _json(self, method: str, path: str, **options: Any) -> Json:
        import httpx

        try:
            answer = self._http.request(method, self._address(path), **options)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._no_answer(error) from None
        if not answer.is_success:
            raise _refusal(answer)
        found = _object(answer)
        if found is None:
            raise BackendError(f"{self.url}{path} gave no JSON object: it may be no job server", answer.status_code)
        return found

    def _address(self, path: str) -> str:
        origin = self.url.removesuffix("/api")
        if path.startswith(f"{origin}/"):
            return path
        if not path.startswith("/"):
            raise BackendError(f"an address outside of {origin}: {clean(path)}")
        return f"{origin}{path}" if path.startswith("/api/") else f"{self.url}{path}"

    def _no_answer(self, error: Exception) -> BackendError:
        if isinstance(error, BackendError):
            return error
        from rltui.smoke.probe import in_words

        return BackendError(f"no answer from {self.url}: {in_words(error)}")


def _own_name() -> str:
    """By which a run notes who paused or stopped it: rltui (USER@HOST)."""
    from trainer.rundir.control import user_name
    from trainer.rundir.process import host_name

    name = f"rltui ({user_name()}@{host_name()})"
    return "".join(sign if " " <= sign <= "~" else "?" for sign in name)


def _lines(answer: httpx.Response) -> Iterator[bytes]:
    """Ended by LF and nothing else: a text may hold other characters that count as line ends elsewhere."""
    rest = b""
    for piece in answer.iter_bytes():
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole


def _stored_event(line: bytes) -> Json | None:
    """The event of a `data:` line; None for any other line, and for what the server made up while answering."""
    if not line.startswith(b"data:"):
        return None
    try:
        event = json.loads(line[5:])
    except ValueError:
        return None
    stored = isinstance(event, dict) and isinstance(event.get("seq"), int) and event.get("type") != "rl.heartbeat"
    return event if stored else None


def _refusal(answer: httpx.Response) -> BackendError:
    """What a server says when it does not do what was asked (WIRE 3.1)."""
    body = _object(answer)
    error = body.get("error") if body else None
    code = error.get("code") if isinstance(error, dict) else None
    detail = body.get("detail") if body else None
    text = detail if isinstance(detail, str) and detail else answer.text or answer.reason_phrase
    return BackendError(clean(text), answer.status_code, code if isinstance(code, str) else None, body)


def _object(answer: httpx.Response) -> Json | None:
    try:
        found = answer.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
