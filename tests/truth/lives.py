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

from truth.places import Place, Seen

PHASES = 4
_QUIET_SHARE = 0.35
_EVENT_CHANCE = 0.4
_LARGE_BYTES = 150_000


@dataclass(frozen=True)
class Version:
    """An honest version: when it was made among all versions of the file, and out of which."""

    number: int
    parent: Version | None

    def is_part_of(self, other: Version) -> bool:
        """Say whether the other one was made out of this one, in any number of steps."""
        step: Version | None = other
        while step is not None and step is not self:
            step = step.parent
        return step is self


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
    """

    def __init__(self, seed: int, number: int, *, is_quiet: bool, is_large: bool, is_accented: bool, part: str) -> None:
        self.chance = Random(f"{seed}/{number}")
        self.number, self._is_large = number, is_large
        draw = self.chance.random()
        self.is_container = draw < 0.08
        self.is_log = 0.08 <= draw < 0.2
        suffix = "hc" if self.is_container else "log" if self.is_log else "dat"
        self.name = f"{part}{'é' if is_accented else 'f'}{number:03}.{suffix}"
        self.is_quiet = is_quiet or self.chance.random() < _QUIET_SHARE
        self.honest: dict[bytes, Version] = {}
        self.log: list[str] = []

    def is_damaged(self, content: bytes) -> bool:
        """Say whether nobody ever meant these bytes to be a file, or the beginning of one."""
        return content not in self.honest and not self.is_beginning(content)

    def is_beginning(self, content: bytes) -> bool:
        """Say whether a content is the beginning of an honest version and ends too early."""
        return any(len(content) < len(each) and each.startswith(content) for each in self.honest)

    def relate(self, here: bytes, there: bytes) -> str:
        """Name what a copy is to the file."""
        mine, other = self.honest.get(here), self.honest.get(there)
        if other is None:
            what = "damaged" if self.is_damaged(there) else "incomplete"
            return what if mine is not None else f"{what}, as the file is"
        if mine is None:
            return "good, but the file is damaged"
        if mine is other:
            return "equal"
        if other.is_part_of(mine):
            return "an older version"
        return "a newer version" if mine.is_part_of(other) else "another version"

    def is_last(self, content: bytes, existing: set[bytes]) -> bool:
        """Say whether a content is honest and no version was made out of it that exists somewhere."""
        this = self.honest.get(content)
        others = (version for each, version in self.honest.items() if each in existing and version is not this)
        return this is not None and not any(this.is_part_of(other) for other in others)

    def begin(self, root: Place, now_ns: int) -> None:
        """Write the first version, from months ago."""
        time_ns = now_ns - self.chance.randrange(30 * 86_400 * 10**9, 400 * 86_400 * 10**9)
        root.write(self.name, self._make(None), time_ns)

    def _make(self, old: bytes | None, size_bytes: int | None = None, *, is_longer: bool = False) -> bytes:
        """Make a version; what continues damaged bytes is not honest."""
        size = size_bytes or self.chance.randrange(4_200, 9_000) + (_LARGE_BYTES if self._is_large else 0)
        content = old + self.chance.randbytes(300) if is_longer and old is not None else self.chance.randbytes(size)
        if not (is_longer and old is not None and self.is_damaged(old)):
            parent = None if old is None else self.honest.get(old)
            self.honest[content] = Version(len(self.honest), parent)
        return content

    def happen(self, moment: Moment, *, is_late: bool) -> None:
        """Let one thing happen, or nothing; ``is_late``: the backup of that day has run."""
        if self.is_quiet or self.chance.random() > _EVENT_CHANCE:
            return
        event, weights = zip(*(_LATE if is_late else _EARLY), strict=True)
        chosen: Callable[[Life, Moment], bool] = self.chance.choices(event, weights)[0]
        if chosen(self, moment):
            self.log.append(f"{chosen.__name__}{' after the backup' if is_late else ''}")


def _stands(life: Life, place: Place) -> Seen | None:
    seen = place.see(life.name) if place.has(life.name) else None
    return seen if seen is not None and len(seen.content) >= 512 else None


def _choose_folder(life: Life, moment: Moment) -> Place | None:
    folders = [place for place in moment.copies if place.holds_files]
    return life.chance.choice(folders) if folders else None


def _edit_at(life: Life, place: Place, now_ns: int) -> bool:
    old = _stands(life, place)
    if old is None:
        return False
    now_ns += life.chance.randrange(6 * 3_600 * 10**9)
    size = len(old.content) if life.chance.random() < 0.4 else None
    content = life._make(old.content, size, is_longer=life.is_log)
    place.write(life.name, content, now_ns, in_place=life.chance.random() < 0.5)
    return True


def edit(life: Life, moment: Moment) -> bool:
    """Edit or append, in the root."""
    return _edit_at(life, moment.root, moment.now_ns)


def edit_copy(life: Life, moment: Moment) -> bool:
    """Edit in a copy: Syncthing, a laptop."""
    place = _choose_folder(life, moment)
    return place is not None and _edit_at(life, place, moment.now_ns + place.clock_ns)


def _rewrite_at(life: Life, place: Place) -> bool:
    """Rewrite as ``exiftool -P`` or VeraCrypt do: the time is put back."""
    old = _stands(life, place)
    if old is None or life.is_damaged(old.content):
        return False
    # Of the same size only what is listed, where the program can see no ctime: nobody could tell it from rot.
    may_keep_size = life.is_container or (place.has_ctime and life.chance.random() < 0.3)
    content = life._make(old.content, len(old.content) if may_keep_size else len(old.content) + 40)
    place.write(life.name, content, old.mtime_ns, in_place=True)
    return True


def rewrite(life: Life, moment: Moment) -> bool:
    """Rewrite in the root, keeping the time."""
    return _rewrite_at(life, moment.root)


def rewrite_copy(life: Life, moment: Moment) -> bool:
    """Rewrite in a copy, keeping the time."""
    place = _choose_folder(life, moment)
    return place is not None and _rewrite_at(life, place)


def _rot_at(life: Life, place: Place) -> bool:
    if _stands(life, place) is None:
        return False
    place.rot(life.name, life.chance)
    return True


def rot(life: Life, moment: Moment) -> bool:
    """Damage below the file system of the root."""
    return _rot_at(life, moment.root)


def rot_copy(life: Life, moment: Moment) -> bool:
    """Damage below the file system of a copy."""
    place = _choose_folder(life, moment)
    return place is not None and _rot_at(life, place)


def rot_and_touch(life: Life, moment: Moment) -> bool:
    """Damage the file, then change its mode."""
    return rot(life, moment) and touch(life, moment)


def touch(life: Life, moment: Moment) -> bool:
    """Move ctime only."""
    path = moment.root.path(life.name)
    if not path.exists():
        return False
    os.chmod(path, path.stat().st_mode ^ 0o020)
    return True


def push(life: Life, moment: Moment) -> bool:
    """Copy the file over its copy, whatever stands in either: ``cp -p``, or ``rsync --checksum``."""
    if not moment.copies:
        return False
    place, old = life.chance.choice(moment.copies), moment.root.see(life.name)
    if old is None or not place.has(life.name) or place.see(life.name) is None:
        return False
    place.write(life.name, old.content, place.keep_time(old.mtime_ns))
    return True


def restore(life: Life, moment: Moment) -> bool:
    """Bring the file back from a copy, with the copy's time."""
    place = _choose_folder(life, moment)
    seen = None if place is None else _stands(life, place)
    if seen is None:
        return False
    moment.root.write(life.name, seen.content, seen.mtime_ns)
    return True


def delete(life: Life, moment: Moment) -> bool:
    """Delete the file in the root."""
    moment.root.remove(life.name)
    return True


_EARLY = ((edit, 5), (rewrite, 2), (rot, 2), (rot_and_touch, 1), (touch, 1), (delete, 0.6), (edit_copy, 1))
_LATE = (
    (edit, 3),
    (edit_copy, 2),
    (rewrite, 2),
    (rewrite_copy, 2),
    (rot, 4),
    (rot_copy, 6),
    (rot_and_touch, 1),
    (touch, 1),
    (push, 1.5),
    (restore, 1),
    (delete, 0.4),
)
