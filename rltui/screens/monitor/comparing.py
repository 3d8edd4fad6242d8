"""The half of the tab Rollouts that compares: groups, their members side by side, two of them word by word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import on
from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from rltui.launch.runs import config_of
from rltui.model.episode_list import Bin, bins
from rltui.model.first_prompt import first_prompt
from rltui.model.group_view import Group, groups_of, near, next_iteration
from rltui.screens.monitor.compared import BinRows, GroupHead, GroupRows, MemberDiff
from rltui.screens.monitor.group import GroupGrid, Read
from rltui.screens.monitor.tab import Tab
from rltui.screens.own_app import own_app
from rltui.sources.base import Unreadable
from rltui.sources.find import NoSuchRun
from rltui.widgets.lines import focus_now
from rltui.widgets.pane import Pane
from rltui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from pathlib import Path

    from rltui.model.first_prompt import Prompt
    from rltui.model.vocabulary import Vocabulary
    from rltui.opened import OpenRun
    from rltui.screens.monitor.episodes import Episodes
    from rltui.sources.base import Json, RunSource

MOST_BINS = 12


class GroupsFound(Message):
    """The groups of an iteration; `n`: the episode that was asked for."""

    def __init__(self, groups: list[Group], n: int) -> None:
        super().__init__()
        self.groups, self.n = groups, n


class MemberRead(Message):
    """What was recorded of a member."""

    def __init__(self, n: int, read: Read) -> None:
        super().__init__()
        self.n, self.read = n, read


class PromptRead(Message):
    """The first prompt of the episode under the cursor; None: it is gone."""

    def __init__(self, config: Path, seed: int, prompt: Prompt | None) -> None:
        super().__init__()
        self.config, self.seed, self.prompt = config, seed, prompt


class Comparing(Tab):
    """Override `keep`, which filters the list."""

    DEFAULT_CSS = """
    Comparing.-group #left { width: 32; min-width: 32; }
    Comparing.-narrow #left { width: 1fr; min-width: 0; }
    Comparing.-narrow.-right #left { display: none; }
    Comparing #groups-pane, Comparing #group-pane { display: none; }
    Comparing.-group #groups-pane, Comparing.-group #group-pane { display: block; }
    Comparing.-group #episodes-pane, Comparing.-group #transcript-pane { display: none; }
    Comparing.-narrow.-group #groups-pane, Comparing.-narrow.-group #group-pane { display: none; }
    Comparing.-narrow.-group #groups-pane.-front, Comparing.-narrow.-group #group-pane.-front { display: block; }
    Comparing #bins-pane { height: auto; }
    Comparing #bins { height: auto; }
    Comparing MemberDiff { display: none; }
    Comparing.-diff MemberDiff { display: block; }
    Comparing.-diff GroupGrid { display: none; }
    """

    def __init__(self, opened: OpenRun) -> None:
        super().__init__()
        self._opened = opened
        self._rows: Episodes | None = None
        self._vocabulary: Vocabulary | None = None
        self._spelling = False  # whether it was looked for
        self._group: int | None = None  # whose members are read
        self._other = 0  # the member that the one under the cursor is compared with

    def compose_left(self) -> ComposeResult:
        """Groups and rewards."""
        with Pane(title="Groups", id="groups-pane"):
            yield GroupHead()
            yield VirtualList(id="groups")
        with Pane(title="Rewards", id="bins-pane"):
            yield VirtualList(id="bins")

    def compose_right(self) -> ComposeResult:
        """The members."""
        with Pane(title="Group", id="group-pane"):
            yield GroupGrid()
            yield MemberDiff()

    def start(self) -> None:
        shown = MemberDiff if self.has_class("-diff") else GroupGrid if self.has_class("-group") else "#episodes"
        focus_now(self.query_one(shown))

    @property
    def panes(self) -> list[Pane]:
        """Those of the view that shows."""
        names = ("groups-pane", "bins-pane", "group-pane") if self.has_class("-group") else (
            "episodes-pane", "bins-pane", "transcript-pane")  # fmt: skip
        return [pane for name in names for pane in self.query(f"#{name}").results(Pane)]

    def to_front(self, pane: Pane) -> None:
        """Show this pane where there is room for one."""
        for other in self.query(Pane):
            other.set_class(other is pane, "-front")
        self.set_class(pane.id in ("transcript-pane", "group-pane"), "-right")

    def keep(self, text: str) -> None:
        """Show the list with what matches."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What belongs to the other view does nothing."""
        group = self.has_class("-group")
        if action in ("diff", "previous_group", "next_group"):
            return group
        if action in ("filter", "sort", "previous_episode", "next_episode"):
            return not group
        return super().check_action(action, parameters)

    def read(self, source: RunSource, n: int) -> Read:
        """What was recorded of episode n; for the thread that reads. Unreadable."""
        from rltui.model.vocabulary import Vocabulary
        from rltui.model.xray import xray_of

        if not self._spelling:
            document = source.vocabulary()
            self._vocabulary = Vocabulary(document) if document is not None else None
            self._spelling = True
        episode, updates = source.episode(n), source.updates(n)
        xray = xray_of(episode, updates, source.tokens, self._vocabulary) if episode is not None else None
        return episode, updates, xray

    # Rewards

    def show_bins(self) -> None:
        """The rewards of what is listed."""
        rows = self._rows
        group = self.query_one("#groups", VirtualList).rows
        if self.has_class("-group") and isinstance(group, GroupRows):
            rewards = [m.reward for g in group.groups for m in g.members if m.reward is not None]
            found = bins(rewards)
        else:
            found = rows.bins() if rows is not None else []
        view = self.query_one("#bins", VirtualList)
        if isinstance(view.rows, BinRows) and view.rows.bins == found:
            return
        cursor = view.cursor
        view.set_rows(BinRows(found), cursor)
        pane = self.query_one("#bins-pane", Pane)
        view.styles.height = max(1, min(len(found), MOST_BINS))
        pane.set_subtitle("enter keeps a bin" if found else "")
        pane.set_title("Rewards" if found else "Rewards: none yet")

    @on(VirtualList.Selected, "#bins")
    def _bin(self, event: VirtualList.Selected) -> None:
        rows = event.list.rows
        if not isinstance(rows, BinRows) or self._rows is None:
            return
        found: Bin = rows.bins[event.index]
        text = self._rows.text
        if self.has_class("-group"):
            groups = self.query_one("#groups", VirtualList).rows
            assert isinstance(groups, GroupRows)
            text = f"iteration = {groups.groups[0].iteration} and split = train"
            self.leave_group()
        self.keep(f"{text} and {found.query}" if text and " or " not in text and "reward " not in text else found.query)
        self.to_front(self.query_one("#episodes-pane", Pane))
        focus_now(self.query_one("#episodes", VirtualList))

    # Groups

    def row_here(self) -> Json:
        """The index row of the episode under the cursor."""
        grid = self.query_one(GroupGrid)
        if self.has_class("-group") and grid.members:
            return grid.members[grid.member].row
        at = self.query_one("#episodes", VirtualList).cursor
        n = self._rows.key(at) if self._rows is not None and at < len(self._rows) else None
        return self._rows.row(n) if self._rows is not None and n is not None else {}

    def action_view(self) -> None:
        if self.has_class("-group"):
            self.leave_group()
            self.to_front(self.query_one("#episodes-pane", Pane))
            focus_now(self.query_one("#episodes", VirtualList))
            return
        row = self.row_here()
        if row.get("n") is not None:
            if row.get("split") == "eval":
                own_app(self).say("an evaluation plays each seed by itself: it has no groups")
            else:
                self._find(row["n"])

    def _find(self, n: int, beyond: int = 0) -> None:
        """The groups of n's iteration; `beyond`: of the next one that way."""
        rows = self._rows
        if rows is None:
            return

        def job() -> None:
            for _ in rows.fates.refresh():
                pass
            at = next_iteration(rows.rows, n, beyond) if beyond else n
            if at is not None:
                self.post_message(GroupsFound(groups_of(near(rows.rows, rows.fates, at)), at))

        self._opened.in_thread(job)

    @on(GroupsFound)
    def _found(self, event: GroupsFound) -> None:
        if not event.groups:
            own_app(self).say("this episode is in no group")
            return
        at = next((i for i, g in enumerate(event.groups) if any(m.n == event.n for m in g.members)), 0)
        new = not self.has_class("-group")
        self.add_class("-group")
        self.query_one("#groups", VirtualList).set_rows(GroupRows(event.groups), at)
        self._show(event.groups[at], event.n)
        dead = sum(group.dead for group in event.groups)
        pane = self.query_one("#groups-pane", Pane)
        pane.set_title(f"Groups, iteration {event.groups[0].iteration}")
        pane.set_subtitle(f"{dead} of {len(event.groups)} ZERO" if dead else f"{len(event.groups)} groups")
        self.show_bins()
        if new:
            self.to_front(self.query_one("#group-pane", Pane))
            if self.display:  # the person may be in another tab by now
                self.call_after_refresh(focus_now, self.query_one(GroupGrid))
        self.refresh_bindings()

    @on(VirtualList.Highlighted, "#groups")
    def _group_highlighted(self, event: VirtualList.Highlighted) -> None:
        rows = event.list.rows
        if isinstance(rows, GroupRows) and len(rows) and self.has_class("-group"):
            self._show(rows.groups[event.index])

    def _show(self, group: Group, n: int | None = None) -> None:
        grid = self.query_one(GroupGrid)
        if grid.group is not None and grid.group.group == group.group and self._group == group.group and n is None:
            return
        self.leave_diff()
        grid.show(group)
        if n is not None:
            grid.member = next((i for i, member in enumerate(group.members) if member.n == n), 0)
            grid.lay()
        self._group = group.group
        self._describe_group()
        model = self._opened.model
        if model is None:
            return
        source = model.source

        def job(members: list[int]) -> None:
            if self._group == group.group and members:
                self.post_message(MemberRead(members[0], self.read(source, members[0])))
                self._opened.in_thread(lambda: job(members[1:]))

        self._opened.in_thread(lambda: job([member.n for member in group.members]))

    @on(MemberRead)
    def _member_read(self, event: MemberRead) -> None:
        grid = self.query_one(GroupGrid)
        if any(member.n == event.n for member in grid.members):
            grid.take(event.n, event.read)

    @on(GroupGrid.Moved)
    def _describe_group(self) -> None:
        grid, pane = self.query_one(GroupGrid), self.query_one("#group-pane", Pane)
        group = grid.group
        if group is None:
            return
        mean = "-" if group.mean is None else f"{group.mean:.3f}"
        std = "-" if group.std is None else f"{group.std:.3f}"
        zero = " · ZERO" if group.dead else ""
        pane.set_title(f"Group {group.group} · seed {group.seed} · mean {mean} · std {std}{zero}")
        pane.set_info(f"{grid.shown.start + 1}-{grid.shown.stop} of {len(group.members)}" if grid.members else "")
        pane.set_subtitle(f"strip: {grid.mode}, turns {'locked' if grid.locked else 'free'}")

    @on(GroupGrid.Opened)
    def _open_member(self, event: GroupGrid.Opened) -> None:
        rows = self._rows
        self.leave_group()
        if rows is None:
            return
        if rows.find(event.n) is None:
            self.keep(f"n = {event.n}")
        else:
            self.query_one("#episodes", VirtualList).cursor = rows.find(event.n) or 0
        self.to_front(self.query_one("#transcript-pane", Pane))
        focus_now(self.query_one("#transcript"))

    def leave_group(self) -> None:
        """The list of episodes again."""
        if self.has_class("-group"):
            self.leave_diff()
            self.remove_class("-group")
            self._group = None
            self.show_bins()
            self.refresh_bindings()

    def _by_group(self, way: int) -> None:
        view = self.query_one("#groups", VirtualList)
        if 0 <= view.cursor + way < len(view.rows):
            view.cursor += way
        elif isinstance(view.rows, GroupRows) and len(view.rows):
            self._find(view.rows.groups[0].members[0].n, way)

    def action_previous_group(self) -> None:
        self._by_group(-1)

    def action_next_group(self) -> None:
        self._by_group(1)

    # Two members word by word

    def action_diff(self) -> None:
        grid = self.query_one(GroupGrid)
        count = len(grid.members)
        if count < 2:
            own_app(self).say("there is no other member to compare with")
            return
        self._other = self._other % (count - 1) + 1 if self.has_class("-diff") else 1
        first, second = grid.members[grid.member], grid.members[(grid.member + self._other) % count]
        if first.n not in grid.read or second.n not in grid.read:
            own_app(self).say("the members are being read")
            return
        self.add_class("-diff")
        self.query_one(MemberDiff).show(grid.read[first.n][0] or {}, grid.read[second.n][0] or {})
        pane = self.query_one("#group-pane", Pane)
        names = [f"#{member.row.get('member')} (reward {_reward(member.reward)})" for member in (first, second)]
        pane.set_title(f"[-{names[0]}-] {{+{names[1]}+}}")
        pane.set_subtitle("d: the next member, esc: back to the group")
        self.to_front(pane)
        self.call_after_refresh(focus_now, self.query_one(MemberDiff))

    def leave_diff(self) -> bool:
        """Back to the group; False: it shows already."""
        if not self.has_class("-diff"):
            return False
        self.remove_class("-diff")
        self._describe_group()
        grid: Widget = self.query_one(GroupGrid)
        self.call_after_refresh(focus_now, grid)
        return True

    # Elsewhere

    def action_smoke(self) -> None:
        seed: Any = self.row_here().get("seed")
        folder = self._opened.folder
        if not isinstance(seed, int):
            own_app(self).say("no episode is under the cursor")
        elif folder is not None and not (folder / "config.toml").is_file():
            own_app(self).say("the run has no config.toml to play by", "watch")
        elif (model := self._opened.model) is not None:
            n, source = self.row_here()["n"], model.source

            def job() -> None:
                try:
                    config = config_of(self._opened.where)
                except NoSuchRun as error:
                    own_app(self).call_from_thread(own_app(self).say, str(error), "watch")
                    return
                try:
                    episode = source.episode(n)
                except Unreadable:
                    episode = None
                self.post_message(PromptRead(config, seed, first_prompt(episode)))

            self._opened.in_thread(job)

    @on(PromptRead)
    def _prompt_read(self, event: PromptRead) -> None:
        if event.prompt is None:
            own_app(self).say("the recorded prompt is gone: only its seed is played", "watch")
        own_app(self).play_in_smoke(event.config, event.seed, event.prompt)


def _reward(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
