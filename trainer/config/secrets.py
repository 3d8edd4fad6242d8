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
    )
    | [Bb]earer\s+\S{16,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY
    | ://[^/\s:@]+:[^/\s@]+@                             # a password in a URL
    """,
    re.VERBOSE,
)
_SECRET_NAME = re.compile(
    r"(?:.*_)?(?:api_?key|secret(?:_key)?|password|passwd|access_token|auth_token|authorization|credentials?)",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9_+/=-]{24,}")


def is_secret(key: str, value: Any) -> bool:
    """Whether the value of `key` holds something that looks like a secret, at any depth."""
    if isinstance(value, dict):
        return any(is_secret(str(name), item) for name, item in value.items())
    if isinstance(value, list):
        return any(is_secret(key, item) for item in value)
    if not isinstance(value, str) or not value:
        return False
    if _KNOWN.search(value):
        return True
    name = key.rpartition(".")[2]
    if _SECRET_NAME.fullmatch(name):
        return len(value) >= 8 and not re.search(r"\s", value)
    holds_address = key.startswith("services.") or name.endswith(("_env", "_url"))
    return holds_address and _TOKEN.fullmatch(value) is not None
