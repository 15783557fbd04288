"""
The habits of places, and what happens to whole worlds.

Each asks one of two questions: who is right, or what counts as the same time, place or name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

RIGHT, SAME = "who is right", "the same"
SECOND_NS = 10**9
HOUR_NS = 3_600 * SECOND_NS
DAY_NS = 24 * HOUR_NS
YEAR_NS = 365 * DAY_NS
_COPIES = 3
NEVER = -1
"""No phase."""

Convert = Callable[[int], int]
"""What becomes of a time."""


def cut(grain_ns: int) -> Convert:
    """Return what cuts a time to a grain."""
    return lambda time_ns: time_ns // grain_ns * grain_ns


def shift(duration_ns: int) -> Convert:
    """Return what moves a time."""
    return lambda time_ns: time_ns + duration_ns


@dataclass(frozen=True, kw_only=True)
class Habit:
    """How a copy is made and kept, and what its file system is."""

    name: str
    question: str = RIGHT
    # The file system
    grain_ns: int = 1  # times are cut to it
    has_ctime: bool = True
    ignores_case: bool = False  # and all names are in capitals
    is_decomposed: bool = False  # names are in NFD
    is_list: bool = False  # of checksums; a file whose size and time stayed is not read again for it
    part: str = ""  # of the root that is copied, such as "sub/"
    clock_ns: int = 0  # by how much the clock of its machine is off
    # The backup
    first_phase: int = 0
    runs_once: bool = False
    keeps_times: bool = True  # else files have the time at which they were copied
    checks_content: bool = False  # what differs is overwritten, also under the same size and time
    deletes: bool = True  # what is gone in the root
    is_interrupted: bool = False  # sometimes a copy is only the beginning
    # What happens to all of it before a backup
    keeps_snapshots: bool = False  # by hard links
    changes_owner: bool = False
    moves_in: int = NEVER  # the phase in which it is copied to another disk, with its times
    renews_in: int = NEVER  # the phase in which the server copies it, with new times
    shifts_in: int = NEVER  # the phase from which on all times are an hour later
    behind: str = "0s"  # the setting of that name


HABITS = (
    Habit(name="rsync -a"),
    Habit(name="older than the first scan, never again", runs_once=True),
    Habit(name="copied to a new disk", runs_once=True, moves_in=2),
    Habit(name="rsync --checksum", checks_content=True),
    Habit(name="cp -al", keeps_snapshots=True, deletes=False),
    Habit(name="chown -R", changes_owner=True),
    Habit(name="second copy, made late", first_phase=2),
    Habit(name="no times", keeps_times=False),
    Habit(name="100 ns", question=SAME, grain_ns=100),
    Habit(name="1 s", question=SAME, grain_ns=SECOND_NS),
    Habit(name="FAT, 2 s", question=SAME, grain_ns=2 * SECOND_NS, has_ctime=False),
    Habit(name="FAT, clock changed", question=SAME, grain_ns=2 * SECOND_NS, has_ctime=False, shifts_in=2),
    Habit(name="interrupted", is_interrupted=True),
    Habit(name="interrupted, no times", is_interrupted=True, keeps_times=False, deletes=False),
    Habit(name="copied by the server", renews_in=2),
    Habit(name="clock a year ahead", clock_ns=YEAR_NS),
    Habit(name="clock a year behind, no times", clock_ns=-YEAR_NS, keeps_times=False),
    Habit(name="list that reuses", is_list=True),
    Habit(name="list that was made once", is_list=True, runs_once=True),
    Habit(name="behind", behind="1d"),
    Habit(name="of a part", part="sub/"),
    Habit(name="other case", question=SAME, ignores_case=True, has_ctime=False, grain_ns=2 * SECOND_NS),
    Habit(name="decomposed names", question=SAME, is_decomposed=True),
)


@dataclass(frozen=True, kw_only=True)
class Circumstance:
    """What happens to a whole world."""

    name: str
    question: str = RIGHT
    clocks_ns: tuple[int, ...] = ()  # by phase: how much the clocks of the program and of who writes are off
    starts_in_1970: bool = False  # so the program believes in its first run
    root: Habit = Habit(name="root")  # its file system, and when all times are an hour later
    moves_in: int = NEVER  # the phase in which the root moves to another disk
    grain_ns: int = 1  # of the times there


CIRCUMSTANCES = (
    Circumstance(name="nothing more"),
    Circumstance(name="clock ahead once", clocks_ns=(0, YEAR_NS)),
    Circumstance(name="nothing more, again"),
    Circumstance(name="clock a year behind at first", clocks_ns=(-YEAR_NS, -YEAR_NS)),
    Circumstance(name="recorded in 1970", starts_in_1970=True),
    Circumstance(
        name="root on FAT, clock changed", question=SAME, root=Habit(name="root", has_ctime=False, shifts_in=2)
    ),
    Circumstance(name="root to a disk with 1 s", question=SAME, moves_in=2, grain_ns=SECOND_NS),
    Circumstance(name="root to a disk with 100 ns", question=SAME, moves_in=1, grain_ns=100),
)


def choose(seed: int) -> tuple[tuple[Habit, ...], Circumstance]:
    """Return the habits of the copies of a world, and what happens to all of it: each has its turn."""
    habits = tuple(HABITS[(_COPIES * seed + each) % len(HABITS)] for each in range(_COPIES))
    return habits, CIRCUMSTANCES[seed % len(CIRCUMSTANCES)]


def describe(seed: int) -> str:
    """Describe a world."""
    habits, circumstance = choose(seed)
    return f"{' + '.join(habit.name for habit in habits)}; {circumstance.name}"


def get_question(seed: int) -> str:
    """Return the harder of the questions that a world asks."""
    habits, circumstance = choose(seed)
    return SAME if SAME in (circumstance.question, *(habit.question for habit in habits)) else RIGHT
