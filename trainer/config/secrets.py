"""Strings that look like keys: a config is copied into run folders and job stores, so none may be in it."""

from __future__ import annotations

import re
from typing import Any

_KNOWN = re.compile(
    r"""(?<![A-Za-z0-9])(?:
      sk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}          # OpenAI, Anthropic and many that copy them
    | (?:sk|pk|rk)_(?:live|test|env)_[A-Za-z0-9_]{8,}
    | gsk_[A-Za-z0-9]{16,}                               # Groq
    | hf_[A-Za-z0-9]{16,}                                # Hugging Face
    | (?:ghp|gho|ghu|ghs|ghr|github_pat)_[A-Za-z0-9_]{16,}
    | AIza[A-Za-z0-9_-]{30,}                             # Google
    | (?:AKIA|ASIA)[A-Z0-9]{16}                          # AWS
    | xox[abprs]-[A-Za-z0-9-]{10,}                       # Slack
    | eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.        # JSON web token
    | [Bb]asic\s+(?=\S*[0-9])(?=\S*[A-Z])(?=\S*[a-z])[A-Za-z0-9+/]{10,}={0,2}(?!\S)
    )
    | [Bb]earer\s+\S{16,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
    | ://[^/\s:@]*:[^/\s@]+@                             # a password in a URL
    | https?://[^/\s@?\#]+@                              # a token as its user
    | [?&](?:(?:api[_-]?)?key|(?:[a-z]+[_-])?token|secret|password|sig|signature)=[^&\s\#]{8,}
    """,
    re.VERBOSE,
)
# What stands under such a name is a secret, unless it is short or prose.
_SECRET_NAME = re.compile(
    r".*api[_-]?key|(?:.*[_-])?(?:secret(?:[_-](?:key|token))?|password|passphrase|passwd|pwd|pw"
    r"|(?:access|private)[_-]key|authorization|(?:access|auth)[_-]token|credentials?)"
    r"|(?:(?:db|http|login|proxy|smtp|user)[_-])?pass",
    re.IGNORECASE,
)
# Other things have such a name, too: a secret is what looks random.
_MAYBE_NAME = re.compile(
    r"(?:(?:.*[_-])?(?:api|bearer|bot|hf|refresh|session)[_-])?token"
    r"|(?:.*[_-])?(?:openai|anthropic|groq|gemini|google|judge|synth|wandb|environment|provider|service)[_-]key",
    re.IGNORECASE,
)
_RANDOM = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_.+/=-]{16,}")
_TOKEN = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+/=-]{24,}")
_HEX = re.compile(r"[0-9a-f]{32,}")
# The name of what may be a key in a line that need not be TOML: it begins something, or = or : follows it.
_BEGINS = re.compile(r"""(?:^|[{,.\[\n])[ \t]*["']?([\w-]+)""")
_ENDS = re.compile(r"""(?<![\w-])([\w-]++)["']?[ \t]*[=:]""")
_VARIABLE = re.compile(r"\$\w+|\$\{\w+\}")
SHORTEST = 6  # characters of what counts as a password; "EMPTY", "none" and "dummy" are none


def is_secret(key: str, value: Any) -> bool:
    """Whether `key`, or its value at any depth, holds something that looks like a secret."""
    if _KNOWN.search(key):
        return True
    if isinstance(value, dict):
        return any(is_secret(str(name), item) for name, item in value.items())
    if isinstance(value, list | tuple):
        return any(is_secret(key, item) for item in value)
    name = key.rpartition(".")[2].strip("\"'")
    if isinstance(value, int) and not isinstance(value, bool):
        return _SECRET_NAME.fullmatch(name) is not None and abs(value) >= 10 ** (SHORTEST - 1)
    return isinstance(value, str) and _is_secret_text(key, name, value)


def _is_secret_text(key: str, name: str, text: str) -> bool:
    if _KNOWN.search(text):
        return True
    if _SECRET_NAME.fullmatch(name):
        prose = re.search(r"\s", text) and not re.search(r"\d", text)
        return len(text) >= SHORTEST and not prose and not _VARIABLE.fullmatch(text)
    if _MAYBE_NAME.fullmatch(name):
        return _RANDOM.fullmatch(text) is not None
    if name in ("wandb", "trackio"):  # their value is the name of a project, and their keys are hexadecimal
        return _HEX.fullmatch(text) is not None
    holds_address = key.startswith("services.") or name.endswith(("_env", "_url"))
    return holds_address and _TOKEN.fullmatch(text) is not None


def may_hold_secret(text: str) -> bool:
    """Whether lines of a file, TOML or not, hold a secret, or name something that is one by its name."""
    names = (match[1] for pattern in (_BEGINS, _ENDS) for match in pattern.finditer(text))
    return masked(text) != text or any(_SECRET_NAME.fullmatch(name) or _MAYBE_NAME.fullmatch(name) for name in names)


def masked(text: str) -> str:
    """`text` without what looks like a secret wherever it stands: for keys, places and lines of a file."""
    return _KNOWN.sub("***", text)
