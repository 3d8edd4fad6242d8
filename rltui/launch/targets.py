"""Which launcher a target's name means: local, http(s)://…, ssh://user@host, ray://…, ray:http://…, slurm."""

from __future__ import annotations

from rltui.launch.base import Launcher, LaunchError

KNOWN = (
    ("local", "this machine"),
    ("http://HOST:PORT", "a job server, as `rltui serve` starts it; https:// likewise"),
    ("ssh://USER@HOST", "a host that you can log in to: a job server is started or found there"),
    ("ray://HOST:PORT", "a Ray cluster; ray:http://HOST:8265 is its dashboard"),
    ("slurm", "the batch system of this machine"),
)
_SCHEMES = ("http", "https", "ssh", "ray")


class NoSuchTarget(ValueError):
    """Says what there is."""


def target(text: str) -> Launcher:
    """The launcher that `text` means; nothing is looked at or started. Raises NoSuchTarget."""
    try:
        launcher = _launcher(text.strip())
    except LaunchError as error:
        raise NoSuchTarget(f"{error}; {error.hint}" if error.hint else str(error)) from None
    if launcher is None:
        raise NoSuchTarget(f"{text!a} is no target; there are {', '.join(name for name, _ in KNOWN)}{_near(text)}")
    return launcher


def _launcher(text: str) -> Launcher | None:
    """Raises LaunchError: of a known kind, and not well formed."""
    scheme, colon, rest = text.partition("://")
    if text in ("", "local"):
        from rltui.launch.local import LocalLauncher

        return LocalLauncher()
    if text == "slurm":
        from rltui.launch.slurm import SlurmLauncher

        return SlurmLauncher()
    if text.startswith("ray:") and text != "ray://":
        from rltui.launch.ray import RayLauncher

        return RayLauncher(text)
    if colon and rest and scheme in ("http", "https"):
        from rltui.launch.server import ServerLauncher

        return ServerLauncher(text)
    if colon and rest and scheme == "ssh":
        from rltui.launch.ssh import SshLauncher

        return SshLauncher(text)
    return None


def _near(text: str) -> str:
    """What may have been meant."""
    scheme, _, rest = text.partition(":")
    if scheme in _SCHEMES and rest.strip("/"):
        return f"; did you mean {scheme}://{rest.strip('/')}?"
    if "@" in text and "://" not in text:
        return f"; did you mean ssh://{text}?"
    return ""
