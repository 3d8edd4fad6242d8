"""The script that a batch system is given: opened in the person's editor before it is submitted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rltui.screens.base import AppScreen

if TYPE_CHECKING:
    from rltui.cli.start import Plan
    from rltui.launch.base import Job, Launcher


class ScriptEditing(AppScreen):
    """A script that was changed is of one start: its run's folder and job id stand in it. It is kept over further
    looks, until something else is to be started."""

    _edited_for: tuple[Job, Stamp | None] | None = None  # the start, and the config as it was then

    def edit_script(self, plan: Plan, stamp: Stamp | None) -> bool:
        """Hand the terminal to the editor. False: nothing has changed."""
        from textual.app import SuspendNotSupported

        from rltui.launch.base import LaunchError
        from rltui.terminal.editor import EditorError, edited

        try:
            before = plan.launcher.shown(plan.job)
            with self.app.suspend():
                text = edited(before, "slurm.sbatch", 1)
        except SuspendNotSupported:
            self.say("this terminal cannot be handed to an editor", "act")
            return False
        except (EditorError, LaunchError) as error:
            self.say(str(error), "act")
            return False
        if text == before:
            return False
        plan.launcher.edited = text if text.strip() else None
        self._edited_for = (plan.job, stamp) if text.strip() else None
        self.say("this script is submitted" if text.strip() else "an empty script: the one of rltui is back")
        return True

    def drop_script(self, launcher: Launcher, why: str = "") -> None:
        """What is submitted is made anew."""
        if launcher.edited is not None and why:
            self.say(f"the edited script is dropped: {why}", "watch")
        launcher.edited = self._edited_for = None

    def fit_script(self, launcher: Launcher, run_dir: Path | None, stamp: Stamp | None) -> None:
        """Drop a script that is not of this start."""
        if self._edited_for is None:
            return
        job, before = self._edited_for
        if before != stamp:
            self.drop_script(launcher, "the config was saved since")
        elif run_dir != job.run_dir:
            self.drop_script(launcher, "another folder is meant")

    def of_script(self, plan: Plan) -> Plan:
        """The plan, as the start that an edited script is of."""
        return plan if self._edited_for is None else replace(plan, job=self._edited_for[0])


Stamp = tuple[int, int]


def stamp_of(path: Path) -> Stamp | None:
    """What tells whether the file was saved since; None: it is not there."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size
