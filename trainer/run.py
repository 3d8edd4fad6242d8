"""`python -m trainer run`: one attempt of a run, a new one or one that goes on, under the lock of its folder."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
from pathlib import Path

from trainer.attempt import Attempt, surroundings
from trainer.config import ConfigError
from trainer.errors import EXIT_CONFIG, EXIT_FAILED
from trainer.opening import Opening, OtherRun, fresh, go_to, resumed
from trainer.recorder import Recorder
from trainer.resume import begin_anew, take_up
from trainer.rundir import DiskFull, RunLock, RunLocked
from trainer.rundir.attempts import NoEarlierAttempt, read_earlier, waits
from trainer.rundir.disk import replace_file
from trainer.rundir.layout import new_job_id
from trainer.rundir.patient import PatientWriter
from trainer.rundir.resumable import NotResumable
from trainer.stdio import say, tell
from trainer.trackers.base import RunFacts
from trainer.trackers.board import trackers_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", type=Path, help="the run's TOML file")
    parser.add_argument("--run-dir", type=Path, required=True, help="folder of this run; made if it is not there")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="sets")
    parser.add_argument("--job-id", default=None, help="default: a new one")
    parser.add_argument("--allow-unknown", action="store_true", help="unknown config keys are warnings")
    parser.add_argument("--take-over", action="store_true", help="replace the lock of a silent run of another host")
    parser.add_argument("--resume", action="store_true", help="go on with the run in --run-dir: a new attempt")
    parser.add_argument(
        "--or-anew", action="store_true", help="with --resume: from the beginning where it has no checkpoint yet"
    )
    parser.add_argument(
        "--from", type=int, default=None, metavar="STEP", dest="from_step", help="a checkpoint with optimizer state"
    )


def main(arguments: argparse.Namespace) -> int:
    """Runs to the end. Exit code: 0 succeeded, 2 config or environment, 3 failed, 130 stopped."""
    os.umask(0o077)  # what we and our children write is for this user alone
    arguments.run_dir, arguments.config = arguments.run_dir.absolute(), arguments.config.absolute()
    try:
        earlier = read_earlier(arguments.run_dir) if arguments.resume else None
        opening = fresh(arguments) if earlier is None else None
        attempt = 1 if earlier is None else earlier.attempt + 1
        if opening is not None:
            opening.loaded.export(os.environ)  # what env_file_path holds, for this process and all that it starts
        if earlier is not None:
            go_to(earlier.cwd)
        with RunLock(arguments.run_dir, attempt=attempt, take_over=arguments.take_over):
            return _locked(arguments, opening)
    except ConfigError as error:
        return _refused("config", error, "mend the config")
    except OtherRun as error:
        return _refused("other_run", error, error.hint)
    except NotResumable as error:
        return _refused("not_resumable", error, error.hint)
    except NoEarlierAttempt as error:
        return _refused("not_resumable", error, "start it with its config, without --resume")
    except RunLocked as error:
        return _refused("run_locked", error, "")
    except (DiskFull, OSError) as error:
        return _no_folder(arguments.run_dir, error)


def _locked(arguments: argparse.Namespace, opening: Opening | None) -> int:
    run_dir: Path = arguments.run_dir
    if opening is None:
        opening = resumed(arguments, read_earlier(run_dir))
        opening.loaded.export(os.environ)
    waited = waits(run_dir)
    if opening.earlier is None and _has_begun(run_dir) and not waited:
        return _refused("run_exists", f"{run_dir} already holds a run", "choose another --run-dir, or --resume it")
    loaded, earlier, restored = opening.loaded, opening.earlier, opening.restored
    with PatientWriter(
        run_dir,
        job_id=earlier.job_id if earlier else arguments.job_id or new_job_id(),
        label=loaded.config.policy.label,
        attempt=earlier.attempt + 1 if earlier else 1,
        checkpoint_dir=loaded.config.checkpoint.dir,
    ) as writer:
        if earlier is None and not waited:
            replace_file(writer.paths, "config.toml", arguments.config.read_bytes())
        writer.resolved(loaded.resolved())
        writer.environment(surroundings(opening, run_dir))
        facts = RunFacts(
            writer.job_id,
            run_dir.name,
            writer.paths.trackers,
            loaded.config.model_dump(mode="json", exclude={"tags"}),
            loaded.config.tags,
            restored.step if restored else 0,
        )
        recorder = Recorder(writer, loaded.derived, loaded.config, trackers_of(loaded.config, facts))
        began = Attempt(opening, recorder, writer)  # before its first status: what was asked by now is not for it
        if restored is not None:
            take_up(recorder, restored, opening.overrides or {})
        elif earlier is not None:
            begin_anew(recorder, opening.overrides or {})
        return asyncio.run(began.run())


def _has_begun(run_dir: Path) -> bool:
    """A start that was killed before its first event leaves nothing that could be resumed."""
    events = run_dir / "events.jsonl"
    return events.exists() and events.stat().st_size > 0


def _refused(code: str, error: object, hint: str) -> int:
    """Nothing was started, and nothing of an earlier attempt is changed."""
    say(f"{error}\n{hint}".rstrip())
    return tell("error", code=code, message=str(error), hint=hint, exit_code=EXIT_CONFIG)


def _no_folder(run_dir: Path, error: OSError) -> int:
    full = isinstance(error, DiskFull) or error.errno in (errno.ENOSPC, errno.EDQUOT)
    code = "disk_full" if full else "run_dir"
    message = f"the run folder {run_dir} cannot be written: {error.strerror or error}"
    hint = "free some space" if full else "choose another folder with --run-dir"
    say(f"{message}; {hint}")
    return tell("error", code=code, message=message, hint=hint, exit_code=EXIT_FAILED if full else EXIT_CONFIG)
