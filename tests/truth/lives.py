"""
The random life of one file: what people, programs and disks do to it, in the root and in its copies.

A version is honest if somebody meant these bytes; all other bytes are damage, but for the beginning of an honest
version, which an interrupted copy leaves. Every choice comes from the file's own randomness, so that one file can be
played again alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from truth.habits import DAY_NS, HOUR_NS, SECOND_NS, Habit
from truth.places import SECTOR_BYTES, Place, Seen

_QUIET_SHARE, _EVENT_CHANCE, _CUT_CHANCE = 0.35, 0.4, 0.3
_LARGE_BYTES = 150_000


@dataclass(frozen=True)
class Version:
    """An honest version: when it was made among all versions of the file, and out of which."""

    number: int
    parent: Version | None

    def is_part_of(self, other: Version | None) -> bool:
        """Say whether the other one was made out of this one, in any number of steps."""
        while other is not None and other is not self:
            other = other.parent
        return other is self


@dataclass
class Moment:
    """When an event happens, by the clock of whoever writes, and where."""

    now_ns: int
    root: Place
    copies: list[Place]


class Life:
    """
    One file.

    Attributes:
        number: in its world.
        name: below the root.
        honest: its honest versions by content.
        log: what happened to it, for who reads a failure.
        chance: of what happens to it.
        whim: of what its owner does about findings.
        is_quiet: nothing happens to it.
        is_container: it is listed in ``rewrites_in_place``.
    """

    def __init__(self, seed: int, number: int, habits: tuple[Habit, ...], *, is_quiet: bool) -> None:
        self.number, self.chance, self.whim = number, Random(f"{seed}/{number}"), Random(f"owner {seed}/{number}")
        kind = self.chance.choices(("dat", "log", "hc"), (80, 12, 8))[0]
        self.is_container, self._is_log = kind == "hc", kind == "log"
        self.is_quiet = self.chance.random() < _QUIET_SHARE or is_quiet
        part = max(habit.part for habit in habits) if number % 4 else ""
        letter = "é" if number % 2 and any(habit.is_decomposed for habit in habits) else "f"
        self.name = f"{part}{letter}{number:03}.{kind}"
        self._is_large = number % 2 == 1 and any(habit.is_interrupted for habit in habits)
        self.honest: dict[bytes, Version] = {}
        self.log: list[str] = []

    def is_damaged(self, content: bytes) -> bool:
        """Say whether nobody ever meant these bytes to be a file, or the beginning of one."""
        return not any(each.startswith(content) for each in self.honest)

    def is_last(self, content: bytes, existing: set[bytes]) -> bool:
        """Say whether a content exists, and nothing that was made out of it."""
        this = self.honest[content]
        later = (version for each, version in self.honest.items() if each in existing and version is not this)
        return content in existing and not any(this.is_part_of(version) for version in later)

    def relate(self, here: bytes, there: bytes) -> str:
        """Name what a copy is to the file."""
        mine, other = self.honest.get(here), self.honest.get(there)
        if other is None:
            what = "damaged" if self.is_damaged(there) else "incomplete"
            return what if mine is not None else f"{what}, and the file is damaged"
        if mine is None:
            return "good, but the file is damaged"
        if mine is other:
            return "equal"
        if other.is_part_of(mine):
            return "an older version"
        return "a newer version" if mine.is_part_of(other) else "another version"

    def begin(self, root: Place, now_ns: int) -> None:
        """Write the first version, from months ago."""
        root.write(self.name, self._make(None), now_ns - self.chance.randrange(30 * DAY_NS, 400 * DAY_NS))

    def _make(self, old: bytes | None, size_bytes: int = 0, *, is_longer: bool = False) -> bytes:
        """Make a version; what continues damaged bytes is not honest."""
        size = size_bytes or self.chance.randrange(4_200, 9_000) + _LARGE_BYTES * self._is_large
        content = old + self.chance.randbytes(300) if old and is_longer else self.chance.randbytes(size)
        if not (old and is_longer and old not in self.honest):
            self.honest[content] = Version(len(self.honest), None if old is None else self.honest.get(old))
        return content

    def happen(self, moment: Moment, *, is_late: bool) -> None:
        """Let one thing happen, or nothing; ``is_late``: the backup of that day has run."""
        if self.is_quiet or self.chance.random() > _EVENT_CHANCE:
            return
        event = self.chance.choices([each for each, *_ in _EVENTS], [late[is_late] for _, *late in _EVENTS])[0]
        if event(self, moment):
            self.log.append(f"{event.__name__.strip('_')}{' after the backup' if is_late else ''}")

    def copy(self, source: Seen, place: Place, now_ns: int) -> None:
        """Have a backup copy the file, whatever stands in the copy."""
        habit, content, time_ns = place.habit, source.content, source.mtime_ns
        if not habit.keeps_times:
            time_ns = now_ns + habit.clock_ns + self.number * SECOND_NS
        if habit.is_interrupted and not self.is_quiet and self.chance.random() < _CUT_CHANCE:
            content = content[: self.chance.randrange(1, len(content) // 1_024) * 1_024]
            time_ns = self.chance.choice((time_ns, now_ns))
            self.log.append("interrupted copy")
        place.write(self.name, content, place.keep_time(time_ns))

    def choose_copy(self, moment: Moment) -> Place | None:
        """Return a copy that holds files and has this one."""
        copies = [place for place in moment.copies if not place.habit.is_list and self.stands_in(place)]
        return self.chance.choice(copies) if copies else None

    def stands_in(self, place: Place) -> Seen | None:
        """Return what stands there, if something can be done to it."""
        seen = place.see(self.name)
        return seen if seen is not None and len(seen.content) >= SECTOR_BYTES else None

    def edit_in(self, place: Place | None, now_ns: int) -> bool:
        """Edit or append."""
        if place is None or (old := self.stands_in(place)) is None:
            return False
        now_ns += place.habit.clock_ns + self.chance.randrange(6 * HOUR_NS)
        size = len(old.content) if self.chance.random() < 0.4 else 0
        content = self._make(old.content, size, is_longer=self._is_log)
        place.write(self.name, content, place.keep_time(now_ns), in_place=self.chance.random() < 0.5)
        return True

    def rewrite_in(self, place: Place | None) -> bool:
        """Rewrite as ``exiftool -P`` or VeraCrypt do: the time is put back."""
        if place is None or (old := self.stands_in(place)) is None or old.content not in self.honest:
            return False
        # Where the program can see no ctime nobody could tell it from rot, unless the file is listed.
        keeps_size = self.is_container or (place.habit.has_ctime and self.chance.random() < 0.3)
        content = self._make(old.content, len(old.content) + 40 * (not keeps_size))
        place.write(self.name, content, old.mtime_ns, in_place=True)
        return True

    def rot_in(self, place: Place | None) -> bool:
        """Damage it on the disk; damage that is undone by damage would be another version."""
        if place is None or self.stands_in(place) is None:
            return False
        place.rot(self.name, self.chance)
        while (seen := place.see(self.name)) is not None and seen.content in self.honest:
            place.rot(self.name, self.chance)
        return True


def _edit(life: Life, moment: Moment) -> bool:
    return life.edit_in(moment.root, moment.now_ns)


def _edit_copy(life: Life, moment: Moment) -> bool:
    return life.edit_in(life.choose_copy(moment), moment.now_ns)


def _rewrite(life: Life, moment: Moment) -> bool:
    return life.rewrite_in(moment.root)


def _rewrite_copy(life: Life, moment: Moment) -> bool:
    return life.rewrite_in(life.choose_copy(moment))


def _rot(life: Life, moment: Moment) -> bool:
    return life.rot_in(moment.root)


def _rot_copy(life: Life, moment: Moment) -> bool:
    return life.rot_in(life.choose_copy(moment))


def _rot_and_touch(life: Life, moment: Moment) -> bool:
    return _rot(life, moment) and _touch(life, moment)


def _touch(life: Life, moment: Moment) -> bool:
    path = moment.root.path(life.name)
    if path.exists():
        os.chmod(path, path.stat().st_mode ^ 0o020)
    return path.exists()


def _push(life: Life, moment: Moment) -> bool:
    """Copy the file over its copy, whatever stands in either: ``cp -p``, or ``rsync --checksum``."""
    place, seen = life.choose_copy(moment), moment.root.see(life.name)
    if place is None or seen is None:
        return False
    place.write(life.name, seen.content, place.keep_time(seen.mtime_ns))
    place.readings.pop(life.name, None)  # a write that may keep all times: what was read before is no witness
    return True


def _restore(life: Life, moment: Moment) -> bool:
    """Bring the file back from a copy, with the copy's time."""
    place = life.choose_copy(moment)
    seen = None if place is None else place.see(life.name)
    if seen is not None:
        moment.root.write(life.name, seen.content, seen.mtime_ns)
    return seen is not None


def _delete(life: Life, moment: Moment) -> bool:
    path = moment.root.path(life.name)
    path.unlink(missing_ok=True)
    return True


# With their weights before the backup, and after it.
_EVENTS: tuple[tuple[Callable[[Life, Moment], bool], float, float], ...] = (
    (_edit, 5, 3),
    (_edit_copy, 1, 2),
    (_rewrite, 2, 2),
    (_rewrite_copy, 0, 2),
    (_rot, 1.5, 2.5),
    (_rot_copy, 0, 8),
    (_rot_and_touch, 1, 1),
    (_touch, 1, 1),
    (_push, 0, 1.5),
    (_restore, 0, 1),
    (_delete, 0.6, 0.4),
)
