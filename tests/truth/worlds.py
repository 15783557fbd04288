"""
One root with its copies, in which many files live while the program looks at them from time to time.

In each phase: events, the backup, more events, then the program. ``Judge`` holds what it said against the truth.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from random import Random
from types import TracebackType

from support.cli import Box, Completed, JsonObject
from support.preload import Shims
from truth.habits import (
    CIRCUMSTANCES,
    HABITS,
    HOUR_S,
    RIGHT,
    SAME,
    SECOND_NS,
    Circumstance,
    Habit,
    back_up,
    cut,
    keep,
    shift,
)
from truth.lives import PHASES, Life, Moment
from truth.places import ListPlace, Place

_DAY_NS = 24 * HOUR_S * SECOND_NS
_BACKUP_CHANCE = 0.6
_COMPARE_CHANCE = 0.7
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
name = "copy{number}"
of = "{of}"
url = "{url}"
behind = "{behind}"
"""


def choose(seed: int) -> tuple[tuple[Habit, Habit], Circumstance]:
    """Return the habits of the two copies of a world, and what happens to all of it: each has its turn."""
    first, second = (HABITS[(2 * seed + each) % len(HABITS)] for each in (0, 1))
    return (first, second), CIRCUMSTANCES[seed % len(CIRCUMSTANCES)]


def describe(seed: int) -> str:
    """Describe a world."""
    habits, circumstance = choose(seed)
    return f"{' + '.join(habit.name for habit in habits)}; {circumstance.name}"


def get_question(seed: int) -> str:
    """Return the harder of the questions that a world asks."""
    habits, circumstance = choose(seed)
    return SAME if SAME in (circumstance.question, *(habit.question for habit in habits)) else RIGHT


class World:
    """
    A world, which follows from its seed.

    Args:
        seed: of everything in it.
        folder: for all that it makes.
        shims: for clocks.
        files: how many live in it.
        only: the number of a file that is played again, beside those to which nothing happens; None for all.

    Attributes:
        root: the watched folder.
        copies: by the names that they have in the configuration.
        phase: which one is under way.
    """

    def __init__(self, seed: int, folder: Path, shims: Shims, *, files: int, only: int | None = None) -> None:
        self.seed, self._shims = seed, shims
        self.chance = Random(f"world {seed}")
        self.habits, self.circumstance = choose(seed)
        self._folder, self.box = folder, Box(folder / "home")
        self._files, self._only = files, only
        self._start_ns = int((time.time() - 3_600) * SECOND_NS) - PHASES * _DAY_NS
        self.copies: dict[str, Place] = {}
        self.phase = 0

    def __enter__(self) -> World:
        self.root = Place(self._folder / "root", has_ctime=self.circumstance.root_has_ctime)
        self.lives = {life.name: life for life in self._find_lives()}
        for life in self.lives.values():
            life.begin(self.root, self._start_ns)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in (self.root, *self.copies.values()):
            place.close()

    def _find_lives(self) -> Iterable[Life]:
        part = next((habit.part for habit in self.habits if habit.part), "")
        for number in range(self._files):
            life = Life(
                self.seed,
                number,
                is_quiet=number % _QUIET_EVERY == 0,
                is_large=number % 2 == 1 and any(habit.is_interrupted for habit in self.habits),
                is_accented=number % 2 == 1 and any(habit.is_decomposed for habit in self.habits),
                part=part if number % 4 else "",
            )
            if life.is_quiet or self._only in (None, number):
                yield life

    def find_life(self, path: str) -> Life | None:
        """Return the file of the root that has this path."""
        return self.lives.get(path.removeprefix(f"{self.root.folder}/"))

    def find_copies(self, life: Life) -> Iterable[tuple[str, Place]]:
        """Return the copies to which a file belongs."""
        return [(name, place) for name, place in self.copies.items() if place.has(life.name)]

    def live(self, phase: int) -> None:
        """Let everything of a phase happen, until the program comes."""
        self.phase = phase
        now_ns = self._start_ns + phase * _DAY_NS + self._get_clock_s() * SECOND_NS
        self._happen(now_ns, is_late=False)
        for number, habit in enumerate(self.habits):
            if phase >= habit.first_phase:
                self._keep_copy(f"copy{number}", habit, now_ns + 7 * HOUR_S * SECOND_NS)
        if phase == self.circumstance.shifts_in:
            self.root.map_times(shift(-HOUR_S))
        self._happen(now_ns + 8 * HOUR_S * SECOND_NS, is_late=True)

    def _happen(self, now_ns: int, *, is_late: bool) -> None:
        moment = Moment(now_ns, self.root, list(self.copies.values()))
        for life in self.lives.values():
            life.happen(moment, is_late=is_late)

    def _keep_copy(self, name: str, habit: Habit, now_ns: int) -> None:
        is_new = name not in self.copies
        if is_new:
            self.copies[name] = self._make_copy(name, habit)
        place = self.copies[name]
        if not is_new:
            keep(place, habit, self.phase, now_ns, self.chance)
        is_due = self.chance.random() < _BACKUP_CHANCE and not habit.runs_once
        if is_new or is_due:
            back_up(self.lives.values(), self.root, place, habit, now_ns)
        for life in self.lives.values():
            life.log.append(f"{name}: {'made' if is_new else 'backup' if is_due else 'no backup'}")

    def _make_copy(self, name: str, habit: Habit) -> Place:
        folder = self._folder / name
        if habit.is_list:
            return ListPlace(folder, part=habit.part)
        place = Place(
            folder,
            has_ctime=habit.has_ctime,
            ignores_case=habit.ignores_case,
            is_decomposed=habit.is_decomposed,
            part=habit.part,
        )
        place.keep_time = cut(habit.grain_ns)
        place.clock_ns = habit.clock_s * SECOND_NS
        return place

    def _get_clock_s(self) -> int:
        clocks_s = self.circumstance.clocks_s
        return clocks_s[self.phase] if self.phase < len(clocks_s) else 0

    def _run(self, *args: str | Path) -> Completed:
        clock_s = self._get_clock_s()
        if self.circumstance.is_first_in_1970 and self.phase == 0:
            clock_s = 3 * 86_400 - int(time.time())
        env = self._shims.clock(self._folder / "clock", clock_s) if clock_s else {}
        done = self.box.run("--json", *args, env=env, timeout=240)
        assert done.code in (0, 1, 3), f"{describe(self.seed)}: {args}: exit {done.code}: {done.stdout}{done.stderr}"
        return done

    def configure(self) -> None:
        """Write the configuration for the copies that exist, and have the program see everything as it is."""
        for place in (self.root, *self.copies.values()):
            place.refresh()
        parts = [_CONFIG.format(root=self.root.folder)]
        for (name, place), habit in zip(self.copies.items(), self.habits, strict=False):
            of = self.root.folder / habit.part
            parts.append(_CONFIG_COPY.format(number=name[-1], of=of, url=place.folder, behind=habit.behind or "0s"))
        self.box.configure("".join(parts))

    def move_root(self) -> None:
        """Move the root to another disk."""
        old = self.root.folder
        self.root.change_disk(cut(self.circumstance.grain_ns))
        self.configure()
        self._run("root", "rebind", old, self.root.folder)
        self.root.was_read(is_whole=True)

    def look(self, *, scrubs: bool, compares: bool) -> list[JsonObject]:
        """Run the program, and return the notes, and what is open about the root and the copies that it compared."""
        time.sleep(_GRANULE_S)
        if self.phase == self.circumstance.moves_in and self.root.readings:
            self.move_root()
        self.configure()
        said = list(self._run("scrub" if scrubs else "scan", self.root.folder).objects)
        self.root.was_read(is_whole=scrubs)
        compared = [name for name in self.copies if compares or self.chance.random() < _COMPARE_CHANCE]
        for name in compared:
            said += self._run("compare", "--with", name).objects
            self.copies[name].was_read(is_whole=True)
        notes = [each for each in said if each["type"] == "note"]
        open_now = self._run("findings").findings
        return notes + [each for each in open_now if each["copy"] in (None, *compared)]

    def has_witness(self, place: Place, life: Life) -> bool:
        """
        Say whether the program has read other bytes at a place, under the size and time that stand there now.

        In a copy, and of what is listed in ``rewrites_in_place``, ctime must not have moved since: else a program may
        have put the time back.
        """
        now = place.see(life.name)
        if now is None or (life.is_container and not place.has_ctime):
            return False
        is_lenient = place is self.root and not life.is_container
        return any(
            each.content != now.content and each.has_stat_of(now) and (is_lenient or each.ctime_ns == now.ctime_ns)
            for each in place.readings.get(life.name, ())
        )

    def find_contents(self) -> set[bytes]:
        """Return all contents that exist anywhere."""
        found = set(self.root.files_kept())
        for place in self.copies.values():
            found.update(place.files_kept())
        kept = (path for path in (self._folder / "home").rglob("*") if path.is_file())
        return found | {path.read_bytes() for path in kept if "catalog" not in path.name}
