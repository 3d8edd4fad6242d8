import pytest

from trainer.taskapp.envfile import load_env_file
from trainer.taskapp.errors import TaskAppError

TEXT = """
# a comment
PLAIN=a b # said about it
export EXPORTED = 'quoted # kept'
DOUBLE="x=y"
EMPTY=
ALREADY=new
"""


def test_names_that_are_not_set_are_set(tmp_path):
    path = tmp_path / ".env"
    path.write_text(TEXT)
    environ = {"ALREADY": "old"}
    assert load_env_file(path, environ) == ["PLAIN", "EXPORTED", "DOUBLE", "EMPTY"]
    assert environ == {"ALREADY": "old", "PLAIN": "a b", "EXPORTED": "quoted # kept", "DOUBLE": "x=y", "EMPTY": ""}


@pytest.mark.parametrize(
    ("content", "words"), [(b"A=1\nsecret words\n", "line 2"), (b"\xff", "UTF-8"), (None, "No such")]
)
def test_a_file_that_is_none_says_why_and_repeats_nothing(tmp_path, content, words):
    path = tmp_path / "env"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TaskAppError, match=words) as caught:
        load_env_file(path, {})
    assert "secret" not in str(caught.value)
