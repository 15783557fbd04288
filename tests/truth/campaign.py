"""
Run every case that a disk can do in one tree, have the program look at it, and hold what it says against the truth.

Between two runs of the program each case goes one step on. After each run nobody may be accused whose bytes are as they
should be; at the end, all that is damaged must have an open finding, with its blocks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from support.cli import REAL_PAUSES, Box, Completed, JsonObject
from support.preload import Shims
from support.results import all_names
from support.running import Running
from support.waiting import wait_until
from truth.cases import CASES, Case, Steps, Until
from truth.disks import DISKS, Can
from truth.known import find_known
from truth.tree import BLOCK_BYTES, Damage, File, Tree

_CONFIG = f"""
[defaults]
block_size = "{BLOCK_BYTES // 1024}KiB"
mass_change = {{ files = 100000, percent = 100 }}
"""
_CONFIG_ALONE = """
[[root]]
path = "{path}"
mass_change = {{ files = 10, percent = 50 }}
"""
_WAVE_KINDS = frozenset({"mass_change", "suspicious_change"})
_COVERED = (0, 1, 3)
_LATER_S = 3_600


Command = tuple[str, ...]


@dataclass(frozen=True)
class Way:
    """
    How the program is run on what was changed.

    Attributes:
        name: in words.
        jobs: one after the other; before each, every case that waits for nothing more goes one step on.
        is_cached: what is damaged is in the page cache as it was.
        is_during: cases go on while a run of their own reads everything, and not before the next.
    """

    name: str
    jobs: tuple[Command, ...]
    is_cached: bool = False
    is_during: bool = False


_SCAN: Command = ("scan",)
_SCRUB: Command = ("scrub",)
_BLIND: Command = ("scrub", "--no-scan")
WAYS = [
    Way(f"{name}, {'cached' if is_cached else 'not cached'}", jobs, is_cached, is_during)
    for is_cached in (False, True)
    for name, jobs, is_during in (
        ("scan first", (_SCAN, _SCRUB, _SCAN, _SCRUB), False),
        ("scrub first", (_SCRUB, _SCRUB, _SCRUB), False),
        ("scrub without scan first", (_BLIND, _SCAN, _SCRUB, _SCRUB), False),
        ("while scanning", (_SCAN, _SCRUB, _SCAN, _SCRUB), True),
        ("while scrubbing", (_SCRUB, _SCRUB, _SCRUB), True),
    )
]
_DURING = {_SCAN: ("scan", "--full"), _SCRUB: ("scrub", "--rate", "20M")}


class Error(StrEnum):
    """What can be wrong with what the program says."""

    MISSED = "missed"  # damage without an open finding
    FALSE = "false"  # a finding about a file that is as it should be
    WRONG_BLOCK = "wrong block"  # a finding with other blocks than those that are damaged
    WRONG_KIND = "wrong kind"  # a finding of a kind or certainty that can't be


@dataclass
class Result:
    """
    What a campaign comes to.

    Attributes:
        errors: the files of each case about which something wrong was said, or nothing.
        known: those of them that ``known`` lists, with the reason.
        cases: how many were played.
        damaged: how many files had to be found.
    """

    errors: dict[tuple[Error, str], dict[str, str]] = field(default_factory=dict)
    known: dict[tuple[Error, str], str] = field(default_factory=dict)
    cases: int = 0
    damaged: int = 0

    def add(self, error: Error, case: str, name: str, text: str) -> None:
        """Add an error about a file; the first thing said of it is enough."""
        self.errors.setdefault((error, case), {}).setdefault(name, text)

    @property
    def unknown(self) -> list[tuple[Error, str]]:
        """All errors that are not known."""
        return [one for one in self.errors if one not in self.known]

    def describe(self) -> str:
        """Sum it up in a line, with the errors below it: how many files of which case, and one of them."""
        counts = [f"{sum(kind is error for kind, _ in self.unknown)} {error}" for error in Error]
        lines = [f"{self.cases} cases, {self.damaged} damaged files: {', '.join(counts)}, {len(self.known)} known"]
        for (error, case), files in sorted(self.errors.items()):
            name, text = min(files.items())
            why = self.known.get((error, case))
            lines.append(
                f"  {error}{'' if why is None else f' (known: {why})'}: {case}: {len(files)} files: {name}: {text}"
            )
        return "\n".join(lines)


@dataclass
class _Player:
    """One case under way."""

    case: Case
    tree: Tree
    steps: Steps
    until: Until | None = None  # None: it is over

    def go_on(self) -> None:
        self.until = next(self.steps, None)


class Campaign:
    """
    One disk, looked at in one way.

    Args:
        disk_name: one of ``DISKS``.
        way: how the program is run.
        box: of the program.
        shims: let the program believe that it is later.
        names: the cases to play; None for all that the disk can do.
    """

    def __init__(self, disk_name: str, way: Way, box: Box, shims: Shims, names: Iterable[str] | None = None) -> None:
        self._disk_name, self._way, self._box, self._shims = disk_name, way, box, shims
        self._env: dict[str, str] = {}
        self._names = None if names is None else frozenset(names)
        self.result = Result()

    def run(self) -> Result:
        """Play all cases to their end."""
        with DISKS[self._disk_name](self._way.is_cached) as disk:
            self._disk = disk
            self._players = [self._open(case) for case in CASES if self._is_playable(case)]
            self._configure()
            if disk.is_mapped:
                self._env = self._shims.clock(self._box.home / "clock", _LATER_S)
            self._play()
        return self.result

    def _is_playable(self, case: Case) -> bool:
        if self._names is not None and case.name not in self._names:
            return False
        # What takes the file system away can't be done while it is read, and empties the cache of all others.
        is_offline = case.needs & {Can.CUT, Can.LOSE} and (self._way.is_during or self._way.is_cached)
        return case.needs <= self._disk.can and not is_offline

    def _open(self, case: Case) -> _Player:
        tree = Tree(self._disk, self._disk.folder / ("alone" if case.is_alone else "root") / case.name)
        return _Player(case, tree, case.script(tree))

    def _configure(self) -> None:
        alone = [_CONFIG_ALONE.format(path=each.tree.folder) for each in self._players if each.case.is_alone]
        self._box.configure(_CONFIG + "".join(alone))
        folders = [each.tree.folder for each in self._players if each.case.is_alone]
        self._roots = [self._disk.folder / "root", *folders]
        self._roots[0].mkdir(exist_ok=True)

    def _play(self) -> None:
        self.result.cases = len(self._players)
        for player in self._players:
            player.go_on()
        os.sync()
        self._disk.planted()
        self._run(_SCAN)
        self._resume_alike(Until.SCANNED)
        self._run(_SCRUB)
        waits: frozenset[Until] = frozenset(Until)
        for job in self._way.jobs:
            ready = [player for player in self._players if player.until in waits]
            if self._way.is_during and ready:
                self._run_during(_DURING[job], ready)
            else:
                self._resume(ready)
            done = self._run(job)
            waits = frozenset({Until.SCRUBBED}) if job == _BLIND else frozenset({Until.SCANNED})
            waits |= {Until.SCRUBBED} if job != _SCAN else set()
        left = [player.case.name for player in self._players if player.until is not None]
        assert not left, f"{self._way.name} has too few jobs for {left}"
        self._judge_end(done)

    def _resume_alike(self, until: Until) -> None:
        self._resume([player for player in self._players if player.until is until])

    def _resume(self, players: Iterable[_Player]) -> None:
        for player in players:
            try:
                player.go_on()
            except OSError as error:
                raise AssertionError(f"{player.case.name} on {self._disk_name}: {error}") from error

    def _run(self, job: Command) -> Completed:
        """Have the program look, and see whether it accuses anybody whose file is as it should be."""
        done = self._box.run("--json", *job, *self._roots, env=self._env, timeout=240)
        assert done.code in _COVERED, f"{job}: exit {done.code}: {done.stdout}{done.stderr}"
        self._settle(done)
        for player in self._players:
            if job != _BLIND:
                player.tree.was_read()
            if job != _SCAN:
                player.tree.was_scrubbed()
            player.tree.forget_past()
        return done

    def _run_during(self, job: Command, players: Sequence[_Player]) -> None:
        """Have the cases go on while a run reads."""
        with Running(self._box, "--json", *job, *self._roots, env=self._env | REAL_PAUSES) as running:
            wait_until(lambda: _is_reading(running.pid) or running.has_ended, "the run reads")
            self._resume(players)
            done = running.finish(timeout_s=240)
        assert done.code in _COVERED, f"{job}: exit {done.code}: {done.stdout}{done.stderr}"
        self._settle(done)

    def _settle(self, done: Completed) -> None:
        for player in self._players:
            player.tree.settle()
        for finding in _by_name(done.findings):
            self._judge(finding)

    def _judge(self, finding: JsonObject) -> None:
        """Hold one finding against the truth about the file that stood there."""
        kind, path = str(finding["kind"]), str(finding["path"] or finding["root"])
        player, name = self._find_player(Path(path))
        if player is None:
            self._add(Error.FALSE, "", path, f"{kind}: {finding['message']}")
            return
        if player.case.is_alone and kind in _WAVE_KINDS:
            return
        files = player.tree.met.get(name, [])
        if all(file.damage is Damage.NONE and not file.is_ambiguous for file in files):
            self._add(Error.FALSE, player.case.name, name, f"{kind} ({finding['certainty']}): {finding['message']}")

    def _find_player(self, path: Path) -> tuple[_Player | None, str]:
        for player in self._players:
            if path.is_relative_to(player.tree.folder):
                return player, str(path.relative_to(player.tree.folder))
        return None, ""

    def _judge_end(self, last: Completed) -> None:
        """Look for everything that is damaged now among the findings that are open now."""
        found = _by_name(self._box.run("--json", "findings").findings)
        for finding in found:
            self._judge(finding)
        by_path: dict[str, list[JsonObject]] = {}
        for finding in found:
            by_path.setdefault(str(finding["path"]), []).append(finding)
        for player in self._players:
            for file, names in player.tree.files():
                bad = player.tree.find_bad_blocks(names[0])
                assert bad == [] or file.damage is not Damage.NONE, f"{player.case.name}: {names} {bad}: rig"
                if bad != [] and file.damage is Damage.DUE:
                    self.result.damaged += 1
                    paths = [str(player.tree.path(name)) for name in names]
                    self._judge_damaged(player, file, bad, [one for path in paths for one in by_path.get(path, ())])
        is_missed = any(error is Error.MISSED for error, _ in self.result.errors)
        assert last.code != 0 or not self.result.damaged or is_missed, "exit 0, with findings that are open"

    def _judge_damaged(self, player: _Player, file: File, bad: list[int] | None, found: list[JsonObject]) -> None:
        case = player.case
        name = ", ".join(name for name, each in player.tree.names.items() if each is file)
        if not found:
            self._add(Error.MISSED, case.name, name, f"blocks {bad}")
            return
        is_readable = player.tree.is_readable(name.split(", ")[0])
        kinds = {"rot", "silent_rewrite"} if is_readable else {"unreadable"}
        right = [one for one in found if one["kind"] in kinds]
        if not right:
            self._add(Error.WRONG_KIND, case.name, name, f"{[one['kind'] for one in found]}, not {kinds}")
        for one in right:
            if one["certainty"] == "proven" and not self._disk.has_ctime:
                self._add(Error.WRONG_KIND, case.name, name, "proven, where nothing can be")
            said, true = _find_blocks(one), set(bad or ())
            if bad is not None and not (said == true if file.is_exact else said & true):
                self._add(Error.WRONG_BLOCK, case.name, name, f"{sorted(said)}, not {bad}")

    def _add(self, error: Error, case: str, name: str, text: str) -> None:
        self.result.add(error, case, name, text)
        why = find_known(error, case, self._disk_name)
        if why is not None:
            self.result.known[error, case] = why


def _find_blocks(finding: JsonObject) -> set[int]:
    """Return the blocks that a finding names, or that its ranges lie in."""
    blocks, ranges = finding["blocks"], finding["ranges"]
    assert isinstance(blocks, list)
    assert isinstance(ranges, list)
    if blocks:
        return set(blocks)
    return {at // BLOCK_BYTES for start, length in ranges for at in range(start, start + length, 512)}


def _is_reading(pid: int) -> bool:
    """Say whether a run has opened its catalog: from then on it is about to read."""
    try:
        return any("catalog.db" in os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _by_name(found: Iterable[JsonObject]) -> list[JsonObject]:
    """Have a finding for each name of a file that has several."""
    return [{**finding, "path": path} for finding in found for path in all_names(finding)]
