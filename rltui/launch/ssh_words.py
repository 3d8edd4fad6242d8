"""What went wrong with an ssh connection: a sentence, and what to do, from what it printed."""

from __future__ import annotations

from rltui.text import clean

NOT_FOUND, NOT_RUNNABLE, FAILED = 127, 126, 255  # of a shell; of a shell; of ssh itself

# What ssh prints, how it is said, what to do. The first that fits; {host} is [user@]host.
_CAUSES = (
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "{host} shows another host key than the one that is known",
        "if it was set up anew: ssh-keygen -R HOST, then `ssh {host}` once by hand; if not, somebody is in between",
    ),
    (
        "Host key verification failed",
        "{host} is no known host",
        "log in once by hand, `ssh {host}`, and accept its key if it is the right one",
    ),
    (
        "Too many authentication failures",
        "{host} refuses the login: too many keys were offered",
        "name the right one: IdentityFile and IdentitiesOnly in ~/.ssh/config",
    ),
    (
        "Permission denied",
        "{host} refuses the login: it takes none of the keys, and no password is asked for here",
        "`ssh {host}` has to work without a question: ssh-copy-id {host}, or ssh-add for a key with a passphrase",
    ),
    ("Could not resolve hostname", "there is no host {host}", "is it spelt right, and is the network up?"),
    ("Connection refused", "{host} has no ssh server at that port", "give its port: ssh://{host}:PORT"),
    ("No route to host", "there is no way to {host}", "is the network up?"),
    ("Network is unreachable", "there is no way to {host}", "is the network up?"),
    ("timed out", "{host} gives no answer", "is it up, and does a firewall let ssh through?"),
    ("Connection closed", "{host} has closed the connection", "`ssh -v {host}` tells more"),
)


def explain(host: str, code: int | None, text: str, *, late: bool) -> tuple[str, str]:
    """(message, hint) from the exit status and stderr of ssh. `late`: it gave no answer in time and was ended."""
    for sign, message, hint in _CAUSES:
        if sign in text and (code == FAILED or late):
            return message.format(host=host), hint.format(host=host)
    lines = [clean(line, 300) for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else ""
    if late:
        return (
            f"{host} gave no answer in time{': ' if last else ''}{last}",
            f"`ssh {host}` has to work without a question",
        )
    if code in (NOT_FOUND, NOT_RUNNABLE):
        message = f"rltui is not installed on {host}, or a command by ssh does not find it{': ' if last else ''}{last}"
        return message, "install it there, or set RLTUI_REMOTE to its path there, such as /home/me/venv/bin/rltui"
    if code == FAILED:
        return f"ssh to {host} failed{': ' if last else ''}{last}", f"`ssh -v {host}` tells more"
    said = "; ".join(lines[-3:]) or f"status {code}"
    return f"no job server could be started on {host}: {said}", f"`ssh {host} rltui serve` shows it by hand"
