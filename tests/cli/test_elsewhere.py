"""Every verb that takes a run takes the address of a job: the same words and numbers as of its folder."""

import json

import pytest

from rltui.cli.main import main
from rltui.samples import samples
from tests.server.conftest import Server
from trainer.config import load
from trainer.rundir.checkpoints import OPTIMIZER
from trainer.rundir.synth import SynthConfig, write_run

NAME = f"resumed-rl_{1:016x}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    write_run(folder / "runs" / NAME, SynthConfig(episodes=240, kind="resumed", seed=1, learner_blocks=False))
    server = Server(folder)
    yield server
    server.stop()


@pytest.fixture
def both(here, server, monkeypatch, capsys):
    """`both(verb, …)` with RUN as the run: what it prints of the folder, and of the address; and the exit codes."""
    for name in ("RLTUI_API_KEY", "SYNTH_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    folder = server.runs / NAME
    (job,) = server.get("/rl/jobs")["jobs"]
    address = f"{server.url}/rl/jobs/{job['job_id']}"

    def run(*args):
        found = []
        for place in (str(folder), address):
            code = main([place if arg == "RUN" else arg for arg in args])
            out, err = capsys.readouterr()
            assert "Traceback" not in err and "fault of its own" not in err
            found.append((code, out.replace(place, "PLACE")))
        return found

    return run


@pytest.mark.parametrize(
    "args",
    [
        ["metrics", "RUN", "--name", "reward"],
        ["events", "RUN", "--all"],
        ["logs", "RUN", "--last", "50"],
        ["rollouts", "RUN", "--where", "reward > 0.5"],
        ["rollout", "RUN", "17", "--tokens"],
        ["judge", "--run", "RUN"],
        ["pipeline", "RUN"],
        ["doctor", "RUN", "--all"],
        ["overview", "RUN"],
    ],
    ids=lambda args: args[0],
)
def test_the_same_data_as_of_the_folder(both, args):
    here, there = both(*args, "--json")
    assert here[0] == there[0]
    here, there = json.loads(here[1]), json.loads(there[1])
    for found in (here, there):
        found.pop("name", None) or found.pop("run")  # a folder's, or a job id
    assert there == here


def test_show_names_the_address(both, server):
    here, there = both("show", "RUN")
    assert here[0] == there[0] == 0
    assert "  address PLACE" in there[1] and "runs in" not in there[1]
    assert "--resume PLACE" in there[1] or "--resume" not in here[1]


def test_a_run_here_and_one_elsewhere_are_compared(here, both, server, capsys):
    write_run(here / "runs" / f"mine-rl_{2:016x}", SynthConfig(episodes=240, seed=2, learner_blocks=False))
    mine, there = both("compare", f"mine-rl_{2:016x}", "RUN", "--json")
    assert mine[0] == there[0] == 0
    assert json.loads(there[1]).keys() == json.loads(mine[1]).keys()


def test_weights_are_fetched_whole_and_go_on_where_they_were_cut(here, both, server, monkeypatch):
    first, second = both("export", "RUN", "--what", "metrics", "--out", "m.csv"), (here / "m.csv")
    assert first[0][0] == 0 and second.exists()
    folder = server.runs / NAME
    checkpoint = max((folder / "checkpoints").glob("step_*"), key=lambda path: int(path.name[5:]))
    address = f"{server.url}/rl/jobs/{server.get('/rl/jobs')['jobs'][0]['job_id']}"
    from rltui.backend import Backend, BackendError

    fetched, real = [], Backend.download

    def cut(self, path, to, **options):
        if len(fetched) == 1:
            fetched.append("cut")
            raise BackendError("no answer")
        fetched.append(to.name)
        return real(self, path, to, **options)

    monkeypatch.setattr(Backend, "download", cut)
    asked = ["export", address, "--what", "adapter", "--out", "mine", "--checkpoint", "latest"]
    assert main(asked) == 3
    assert not (here / "mine").exists()
    assert main(asked) == 0
    assert len(set(fetched)) == len(fetched)
    assert not list(here.glob(".mine*"))
    for path in (here / "mine").iterdir():
        assert path.read_bytes() == (checkpoint / path.name).read_bytes()
    assert (here / "mine" / "adapter_model.safetensors").exists() and not (here / "mine" / OPTIMIZER).exists()


@pytest.mark.parametrize("args", [["show", "RUN", "--given"], ["diff", "RUN", "demo.toml"], ["new", "--from", "RUN"]])
def test_what_the_run_runs_with_stands_for_its_config(both, server, tmp_path, monkeypatch, args):
    """With a learning rate that no file has: it was given by --set."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo.toml").write_text(samples()["demo"].read_text())
    folder = server.runs / NAME
    (folder / "config.toml").write_text(samples()["demo"].read_text())
    loaded = load(folder / "config.toml", sets=["training.learning_rate=0.00023"])
    (folder / "resolved.json").write_text(json.dumps({"schema": 1, **loaded.resolved()}))
    here, there = both("config", *args, *(["--out", "-"] if args[0] == "new" else []))
    assert here == there and "learning_rate" in here[1] and ("0.00023" in here[1] or "2.3e-4" in here[1])
