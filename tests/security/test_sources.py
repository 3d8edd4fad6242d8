"""Nothing that is read can run: no pickles, no code of models, no shell, nothing that is evaluated."""

import ast
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainer.models import ModelNotFound, load_model, resolve_model

ROOT = Path(__file__).resolve().parents[2]
# What makes objects or code of bytes, or hands text to a shell.
FORBIDDEN = {
    "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads", "shelve.open", "joblib.load",
    "dill.load", "dill.loads", "cloudpickle.load", "cloudpickle.loads", "torch.load", "yaml.load", "yaml.unsafe_load",
    "pandas.read_pickle", "eval", "exec", "os.system", "os.popen", "tarfile.open", "shutil.unpack_archive",
}  # fmt: skip


ARGUMENTS = {"shell": False, "allow_pickle": False, "trust_remote_code": False, "weights_only": True}
LAST = {name.rpartition(".")[2] for name in FORBIDDEN}
WORDS = sorted((LAST - {"eval", "exec", "open", "load"}) | {*ARGUMENTS, "from_pretrained"})
_SUSPECT = re.compile(rf"\b(?:{'|'.join(WORDS)})\b|(?<![.\w])(?:eval|exec)\(|\b(?:pickle|torch|yaml|marshal)\.load\b")


def calls() -> Iterator[tuple[str, ast.Call]]:
    """(file and line, call) of the product, in files where one of the words stands: parsing all takes half a minute."""
    for path in sorted([*(ROOT / "trainer").rglob("*.py"), *(ROOT / "rltui").rglob("*.py")]):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if _SUSPECT.search(text) else ():
            if isinstance(node, ast.Call):
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_no_call_makes_code_of_data():
    """The one `pickle.dumps` tells a server of ours, on its private socket, where weights lie (docs/security.md)."""
    wrong, models = [], 0
    for at, call in calls():
        last = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = {keyword.arg: getattr(keyword.value, "value", "?") for keyword in call.keywords}
        if last in LAST and ast.unparse(call.func) in FORBIDDEN:
            wrong.append(f"{at} {ast.unparse(call.func)}")
        wrong += [f"{at} {name}" for name in ARGUMENTS.keys() & given if given[name] is not ARGUMENTS[name]]
        if last == "from_pretrained":
            models += 1
            if given.get("trust_remote_code") is not False and None not in given:  # ** gives a file of ours
                wrong.append(f"{at} without trust_remote_code=False")
    assert wrong == [] and models >= 4


class Bomb:
    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self):
        return Path.touch, (self._mark,)


def folder_with(tmp_path: Path, **more: object) -> Path:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(
        json.dumps({"hidden_size": 8, "num_attention_heads": 1, "vocab_size": 8, **more})
    )
    return model


def with_a_pickle(tmp_path: Path) -> tuple[Path, Path]:
    """A model whose weights make a file when they are loaded; that file."""
    model, mark = folder_with(tmp_path, model_type="llama"), tmp_path / "ran"
    (model / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(mark)))
    return model, mark


def test_a_model_of_pickled_weights_is_refused_with_what_to_do(tmp_path):
    model, mark = with_a_pickle(tmp_path)
    with pytest.raises(ModelNotFound, match="save it with safetensors"):
        resolve_model(str(model))
    assert not mark.exists()


@pytest.mark.slow
def test_pickled_weights_are_not_loaded(tmp_path):
    model, mark = with_a_pickle(tmp_path)
    with pytest.raises(OSError, match="safetensors"):
        load_model(model, "float32")
    assert not mark.exists()


@pytest.mark.slow
def test_code_that_lies_beside_a_model_is_not_run(tmp_path):
    own = {"AutoConfig": "evil.Evil", "AutoModelForCausalLM": "evil.Evil"}
    model, mark = folder_with(tmp_path, model_type="evil", auto_map=own), tmp_path / "ran"
    (model / "evil.py").write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\nclass Evil: ...\n")
    (model / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="trust_remote_code"):
        load_model(model, "float32")
    assert not mark.exists()
