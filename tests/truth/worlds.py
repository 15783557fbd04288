"""
One root with its copies, in which many files live while the program looks at them from time to time.

In each phase, which is a day: events, the backup, more events, then the program. Times of files are as on these days;
the clock of the program is that of the machine, unless the world has another one.
"""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path
from random import Random
from typing import Self

from support.cli import Box, Completed, JsonObject
from support.preload import Shims
from truth.habits import DAY_NS, HOUR_NS, SECOND_NS, choose, cut, describe, shift
from truth.lives import Life, Moment
from truth.places import Place, Seen

PHASES = 4
_BACKUP_CHANCE, _COMPARE_CHANCE = 0.6, 0.7
_GRANULE_S = 0.03
_QUIET_EVERY = 5
_CONFIG = """
[defaults]
block_size = "64KiB"
mass_change = {{ files = 100000, percent = 100 }}
rewrites_in_place = ["*.hc"]
[[root]]
path = "{root}"
"""
_CONFIG_COPY = """
[[copy]]
name = "{name}"
of = "{of}"
url = "{url}"
behind = "{behind}"
"""


def choose_start_ns() -> int:
    """Return when a world begins of which all phases lie in the past."""
    return time.time_ns() - HOUR_NS - PHASES * DAY_NS


class World:
    """
    A world, which follows from its seed.

    Args:
        seed: of everything in it.
        folder: for all that it makes.
        shims: for clocks.
        files: how many live in it.
        only: the number of a file that is played again, beside those to which nothing happens; None for all.
        start_ns: when it begins, some days ago; 0: as the machine's clock has it.

    Attributes:
        root: the watched folder.
        copies: by the names that they have in the configuration.
        lives: the files, by name.
        phase: which one is under way.
        can_compare: whether the program knows how to.
    """

    can_compare = True

    def __init__(
        self, seed: int, folder: Path, shims: Shims, *, files: int, only: int | None = None, start_ns: int = 0
    ) -> None:
        self.seed, self._folder, self._shims, self.box = seed, folder, shims, Box(folder / "home")
        self._chance, self.phase = Random(f"world {seed}"), 0
        self._habits, self._circumstance = choose(seed)
        self._start_ns = start_ns or choose_start_ns()
        lives = [Life(seed, each, self._habits, is_quiet=each % _QUIET_EVERY == 0) for each in range(files)]
        self.lives = {life.name: life for life in lives if life.is_quiet or only in (None, life.number)}
        self.copies: dict[str, Place] = {}
        self.rejected: set[bytes] = set()  # what a person decided to be an older version

    def __enter__(self) -> Self:
        self.root = Place(self._folder / "root", self._circumstance.root)
        for life in self.lives.values():
            life.begin(self.root, self._start_ns)
        return self

    def __exit__(self, *_: object) -> None:
        for place in (self.root, *self.copies.values()):
            place.close()

    def find_life(self, path: str) -> Life | None:
        """Return the file of the root that has this path."""
        return self.lives.get(path.removeprefix(f"{self.root.folder}/"))

    def find_copies(self, life: Life) -> list[tuple[str, Place]]:
        """Return the copies to which a file belongs."""
        return [(name, place) for name, place in self.copies.items() if place.has(life.name)]

    def has_witness(self, place: Place, life: Life) -> bool:
        """
        Say whether the program has first read other bytes at a place, under the size and time that stand there now.

        In a copy, and of what is listed in ``rewrites_in_place``, ctime must not have moved since: else a program may
        have put the time back.
        """
        now = place.see(life.name)
        if now is None or now.content in self.rejected or (life.is_container and not place.habit.has_ctime):
            return False
        if place is not self.root and any(
            each.content == now.content for each in self.root.readings.get(life.name, ())
        ):
            return False  # the file had it, too: a backup run may have copied it, under its time
        is_lenient = place is self.root and not life.is_container
        same_stat = (each for each in place.readings.get(life.name, ()) if each.has_stat_of(now))
        first_ones = itertools.takewhile(lambda each: each.content != now.content, same_stat)
        return any(is_lenient or each.ctime_ns == now.ctime_ns for each in first_ones)

    def live(self, phase: int) -> None:
        """Let everything of a phase happen, until the program comes."""
        self.phase = phase
        now_ns = self._start_ns + phase * DAY_NS + self._get_clock_ns()
        self._happen(now_ns, is_late=False)
        for number, habit in enumerate(self._habits):
            if phase >= habit.first_phase:
                name = f"copy{number}"
                is_new = name not in self.copies
                place = self.copies[name] if not is_new else Place(self._folder / name, habit)
                self.copies[name] = place
                self._keep_copy(name, place, now_ns + 7 * HOUR_NS, is_new=is_new)
        if phase == self.root.habit.shifts_in:
            self.root.map_times(shift(HOUR_NS))
        self._happen(now_ns + 8 * HOUR_NS, is_late=True)

    def _get_clock_ns(self) -> int:
        clocks_ns = self._circumstance.clocks_ns
        return clocks_ns[self.phase] if self.phase < len(clocks_ns) else 0

    def _happen(self, now_ns: int, *, is_late: bool) -> None:
        moment = Moment(now_ns, self.root, list(self.copies.values()))
        for life in self.lives.values():
            life.happen(moment, is_late=is_late)

    def _keep_copy(self, name: str, place: Place, now_ns: int, *, is_new: bool) -> None:
        habit = place.habit
        if habit.keeps_snapshots:
            place.keep_snapshot(self.phase)
        if habit.changes_owner:
            for path in map(place.path, place.names()):
                os.chown(path, 1_000 + self.phase, -1)
        if self.phase == habit.moves_in:
            place.change_disk(cut(1))
        if self.phase == habit.renews_in:
            for each in place.names():
                seen = place.see(each)
                assert seen is not None
                place.write(each, seen.content, now_ns + self._chance.randrange(60 * SECOND_NS))
        if self.phase == habit.shifts_in:
            keep_time = place.keep_time
            place.map_times(shift(HOUR_NS))
            place.keep_time = lambda time_ns: keep_time(time_ns) + HOUR_NS
        is_due = is_new or (self._chance.random() < _BACKUP_CHANCE and not habit.runs_once)
        for life in self.lives.values():
            life.log.append(f"{name}: {'made' if is_new else 'backup' if is_due else 'no backup'}")
            if is_due and place.has(life.name):
                self._back_up(life, place, now_ns)

    def _back_up(self, life: Life, place: Place, now_ns: int) -> None:
        source, target = self.root.see(life.name), place.see(life.name)
        if source is None and place.habit.deletes:
            place.path(life.name).unlink(missing_ok=True)
        elif source is not None and (target is None or _is_outdated(source, target, place)):
            life.copy(source, place, now_ns)

    def look(self, *, scrubs: bool, compares: bool) -> list[JsonObject]:
        """Run the program; return its notes, and what is open about the root and the copies that it compared."""
        time.sleep(_GRANULE_S)
        if self.phase == self._circumstance.moves_in and self.root.readings:
            old = self.root.folder
            self.root.change_disk(cut(self._circumstance.grain_ns))
            self._configure()
            self._run("root", "rebind", old, self.root.folder)
            time.sleep(1 - time.time() % 1)  # seen in the second of the move is not yet seen after it
            self.root.was_read(is_whole=True)
        self._configure()
        found = self._run("scrub" if scrubs else "scan", self.root.folder).of_type("note")
        self.root.was_read(is_whole=scrubs)
        for name, place in self.copies.items():
            if not self.can_compare or (not compares and self._chance.random() > _COMPARE_CHANCE):
                continue
            done = self._run("compare", "--with", name)
            found += done.of_type("note")
            # A copy that changed its disk has another name in findings.
            found += [{**each, "copy": name} for each in done.findings if each["copy"]]
            if not any(each["kind"] == "copy_unreadable" for each in done.findings):
                place.was_read(is_whole=True)
        return found + [each for each in self._run("findings").findings if not each["copy"]]

    def _configure(self) -> None:
        """Write the configuration for the copies that exist, and have the program see everything as it is."""
        parts = [_CONFIG.format(root=self.root.folder)]
        for name, place in self.copies.items():
            place.refresh()
            of = self.root.folder / place.habit.part
            parts.append(_CONFIG_COPY.format(name=name, of=of, url=place.folder, behind=place.habit.behind))
        self.root.refresh()
        self.box.configure("".join(parts))

    def _run(self, *args: str | Path) -> Completed:
        clock_s = self._get_clock_ns() // SECOND_NS
        if self._circumstance.starts_in_1970 and self.phase == 0:
            clock_s = 3 * 86_400 - int(time.time())
        env = self._shims.clock(self._folder / "clock", clock_s) if clock_s else {}
        done = self.box.run("--json", *args, env=env, timeout=240)
        assert done.code in (0, 1, 3), f"{describe(self.seed)}: {args}: {done.code}: {done.stdout}{done.stderr}"
        return done

    def find_contents(self) -> set[bytes]:
        """Return all contents that exist anywhere, also where the program keeps its own files."""
        found = {content for place in (self.root, *self.copies.values()) for content in place.find_contents()}
        kept = (path for path in self.box.home.rglob("*") if path.is_file() and "catalog" not in path.name)
        return found | {path.read_bytes() for path in kept}


def _is_outdated(source: Seen, target: Seen, place: Place) -> bool:
    """Say whether a backup copies a file again."""
    if place.habit.checks_content:
        return source.content != target.content
    if len(source.content) != len(target.content):
        return True
    if not place.habit.keeps_times:
        return source.mtime_ns > target.mtime_ns
    return place.keep_time(source.mtime_ns) != target.mtime_ns
