"""
The habits of copies and the circumstances of whole worlds: what happens to all files of a place at once.

Each belongs to one of two questions: who is right, and what counts as the same time, place or name.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random

from truth.lives import Life
from truth.places import Place, Seen

HOUR_S = 3_600
YEAR_S = 365 * 86_400
SECOND_NS = 10**9
SAME = "the same"
RIGHT = "who is right"
_CUT_CHANCE = 0.3


def cut(grain_ns: int) -> Callable[[int], int]:
    """Return what cuts a time to a grain."""
    return lambda time_ns: time_ns // grain_ns * grain_ns


def shift(seconds: int) -> Callable[[int], int]:
    """Return what moves a time."""
    return lambda time_ns: time_ns + seconds * SECOND_NS


@dataclass(frozen=True, kw_only=True)
class Habit:
    """
    How a copy is made and kept.

    Attributes:
        name: in words.
        question: that it belongs to.
        grain_ns: times are cut to it.
        keeps_times: files get the time at which they are copied, if not.
        has_ctime, ignores_case, is_decomposed, is_list, part: see ``Place``.
        first_phase: in which it is made.
        runs_once: it is never brought up to date.
        checks_content: it overwrites whatever differs, also under the same size and time.
        deletes: what is gone in the root is removed.
        moves_in: the phase in which it is copied to another disk, with its times.
        renews_in: the phase in which all of it is copied by the server, with new times.
        shifts_in: the phase after which all times are an hour later.
        keeps_snapshots: by hard links.
        changes_owner: of everything, in each phase.
        is_interrupted: sometimes a copy is only the beginning.
        clock_s: by which the clock of its machine is off.
        behind: the setting of that name.
    """

    name: str
    question: str = RIGHT
    grain_ns: int = 1
    keeps_times: bool = True
    has_ctime: bool = True
    ignores_case: bool = False
    is_decomposed: bool = False
    is_list: bool = False
    part: str = ""
    first_phase: int = 0
    runs_once: bool = False
    checks_content: bool = False
    deletes: bool = True
    moves_in: int = -1
    renews_in: int = -1
    shifts_in: int = -1
    keeps_snapshots: bool = False
    changes_owner: bool = False
    is_interrupted: bool = False
    clock_s: int = 0
    behind: str = ""


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
    Habit(name="interrupted, without times", is_interrupted=True, keeps_times=False, deletes=False),
    Habit(name="copied by the server", renews_in=2),
    Habit(name="clock a year ahead", clock_s=YEAR_S),
    Habit(name="clock a year behind, without times", clock_s=-YEAR_S, keeps_times=False),
    Habit(name="list that reuses", is_list=True),
    Habit(name="list that was made once", is_list=True, runs_once=True),
    Habit(name="behind", behind="1d"),
    Habit(name="of a part", part="sub/"),
    Habit(name="other case", question=SAME, ignores_case=True, has_ctime=False, grain_ns=2 * SECOND_NS),
    Habit(name="decomposed names", question=SAME, is_decomposed=True),
)


@dataclass(frozen=True, kw_only=True)
class Circumstance:
    """
    What happens to a whole world.

    Attributes:
        name: in words.
        question: that it belongs to.
        clocks_s: by phase, by how much the clock of the program and of whoever writes in the root is off.
        is_first_in_1970: the first run of the program believes that it is 1970.
        root_has_ctime: whether the file system of the root has one.
        shifts_in: the phase in which all times of the root are an hour earlier.
        moves_in: the phase in which the root moves to another disk.
        grain_ns: of the times there.
    """

    name: str
    question: str = RIGHT
    clocks_s: tuple[int, ...] = ()
    is_first_in_1970: bool = False
    root_has_ctime: bool = True
    shifts_in: int = -1
    moves_in: int = -1
    grain_ns: int = 1


CIRCUMSTANCES = (
    Circumstance(name="none"),
    Circumstance(name="clock ahead once", clocks_s=(0, YEAR_S)),
    Circumstance(name="none again"),
    Circumstance(name="clock a year behind at first", clocks_s=(-YEAR_S, -YEAR_S)),
    Circumstance(name="recorded in 1970", is_first_in_1970=True),
    Circumstance(name="root on FAT, clock changed", question=SAME, root_has_ctime=False, shifts_in=2),
    Circumstance(name="root to a disk with 1 s", question=SAME, moves_in=2, grain_ns=SECOND_NS),
    Circumstance(name="root to a disk with 100 ns", question=SAME, moves_in=1, grain_ns=100),
)


def back_up(lives: Iterable[Life], root: Place, place: Place, habit: Habit, now_ns: int) -> None:
    """Bring a copy up to date as its habit is."""
    for life in lives:
        if not place.has(life.name):
            continue
        source, target = root.see(life.name), place.see(life.name)
        if source is None:
            if habit.deletes:
                place.remove(life.name)
        elif _is_due(source, target, place, habit):
            _copy(life, source, place, habit, now_ns)


def _is_due(source: Seen, target: Seen | None, place: Place, habit: Habit) -> bool:
    if target is None:
        return True
    if habit.checks_content:
        return source.content != target.content
    if not habit.keeps_times:
        return len(source.content) != len(target.content) or source.mtime_ns > target.mtime_ns
    if len(source.content) != len(target.content):
        return True
    return place.keep_time(source.mtime_ns) != target.mtime_ns


def _copy(life: Life, source: Seen, place: Place, habit: Habit, now_ns: int) -> None:
    content, time_ns = source.content, place.keep_time(source.mtime_ns)
    if not habit.keeps_times:
        time_ns = now_ns + place.clock_ns + life.number * SECOND_NS
    if habit.is_interrupted and not life.is_quiet and life.chance.random() < _CUT_CHANCE:
        content = content[: life.chance.randrange(1, len(content) // 1_024) * 1_024]
        time_ns = life.chance.choice((time_ns, now_ns))
        life.log.append("interrupted copy")
    place.write(life.name, content, place.keep_time(time_ns) if not habit.keeps_times else time_ns)


def keep(place: Place, habit: Habit, phase: int, now_ns: int, chance: Random) -> None:
    """Let happen to a copy what does not depend on its files."""
    if habit.keeps_snapshots:
        place.hide_snapshot(phase)
    if habit.changes_owner:
        for name in place.names():
            os.chown(place.path(name), 1_000 + phase, -1)
    if phase == habit.moves_in:
        place.change_disk(lambda time_ns: time_ns)
    if phase == habit.renews_in:
        for name in place.names():
            seen = place.see(name)
            assert seen is not None
            place.write(name, seen.content, now_ns + chance.randrange(60 * SECOND_NS))
    if phase == habit.shifts_in:
        place.map_times(shift(HOUR_S))
        place.keep_time = _after(place.keep_time, shift(HOUR_S))


def _after(first: Callable[[int], int], second: Callable[[int], int]) -> Callable[[int], int]:
    return lambda time_ns: second(first(time_ns))
