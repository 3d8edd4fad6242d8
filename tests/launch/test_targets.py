import pytest

from rltui.launch.base import LaunchError
from rltui.launch.local import LocalLauncher
from rltui.launch.runs import split
from rltui.launch.server import ServerLauncher
from rltui.launch.ssh import SshLauncher, host_of
from rltui.launch.targets import NoSuchTarget, target
from rltui.sources.find import NoSuchRun


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("local", LocalLauncher),
        ("http://127.0.0.1:8787", ServerLauncher),
        ("https://gpu.example/api/", ServerLauncher),
        ("ssh://anna@gpu:2222", SshLauncher),
    ],
)
def test_a_target_is_known_by_its_name_and_nothing_is_looked_at(text, kind):
    assert type(target(text)) is kind
    assert target(text).name == text.rstrip("/")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("anna@gpu", "did you mean ssh://anna@gpu?"),
        ("ssh:gpu", "did you mean ssh://gpu?"),
        ("http:/127.0.0.1:1", "did you mean http://127.0.0.1:1?"),
        ("gpu", "there are local, http://HOST:PORT"),
        ("http://", "there are local"),
        ("ssh://anna:secret@gpu", "ssh-copy-id"),
        ("ray:head:8265", "ray"),
    ],
)
def test_what_is_no_target_is_told_with_what_there_is(text, words):
    with pytest.raises(NoSuchTarget) as error:
        target(text)
    assert words in str(error.value)


def test_the_host_of_an_ssh_target():
    host = host_of("ssh://anna@gpu.example:2222")
    assert (host.name, host.port) == ("anna@gpu.example", 2222)
    assert "BatchMode=yes" in host.ssh() and host.ssh()[-2:] == ["-p", "2222"]
    assert host_of("ssh://gpu").ssh()[-2:] != ["-p", "None"]


@pytest.mark.parametrize(
    "text", ["ssh://-oProxyCommand=touch", "ssh://anna:secret@gpu", "ssh://gpu:x", "ssh://gpu/path", "ssh://@"]
)
def test_what_is_no_host_of_ssh_never_reaches_ssh(text):
    with pytest.raises(LaunchError) as error:
        host_of(text)
    assert error.value.refused and "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("http://127.0.0.1:8787/api/rl/jobs/rl_1", ("http://127.0.0.1:8787/api", "rl_1")),
        ("https://gpu/rl/jobs/rl_1/", ("https://gpu", "rl_1")),
        ("http://gpu/api/learning/jobs/rl_1", ("http://gpu/api", "rl_1")),
        ("http://gpu/api/jobs/rl_1", ("http://gpu/api", "rl_1")),
        ("http://gpu:1/rl_1", ("http://gpu:1", "rl_1")),
        ("ssh://anna@gpu:22/rl_1", ("ssh://anna@gpu:22", "rl_1")),
    ],
)
def test_server_and_job_of_an_address(address, found):
    assert split(address) == found


@pytest.mark.parametrize(
    "address", ["http://gpu", "http://gpu/other", "ssh://gpu", "ssh://gpu/", "ssh://gpu/a/b", "http://[/jobs/1"]
)
def test_what_names_no_job_is_told(address):
    with pytest.raises(NoSuchRun, match="names no job; it is"):
        split(address)
