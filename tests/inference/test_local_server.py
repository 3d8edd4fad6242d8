"""What ends a completion, as the engine's process reads it from a model folder."""

import json
import shutil

import pytest
from tokenizers import Tokenizer

from trainer.inference.chat import Chat
from trainer.inference.local_server import end_ids


@pytest.mark.parametrize("written", ["<|im_end|>", {"__type": "AddedToken", "content": "<|im_end|>", "special": True}])
def test_the_template_of_a_turn_ends_it_whatever_the_models_own_end_is(tiny, tmp_path, written):
    """A fine-tuned model may keep the base model's end of text in its generation config."""
    folder = tmp_path / "model"
    shutil.copytree(tiny.path, folder)
    (folder / "generation_config.json").write_text('{"eos_token_id": 258}')
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"eos_token": written}))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert end_ids(folder, tokenizer) == {257, 258} == Chat(folder).eos_token_ids


def test_a_tokenizer_without_a_config_or_an_end_adds_none(tiny, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(tiny.path, folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"eos_token": null}')
    assert end_ids(folder, tokenizer) == {257}
    (folder / "tokenizer_config.json").unlink()
    assert end_ids(folder, tokenizer) == {257}
