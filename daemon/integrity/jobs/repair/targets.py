"""
All names of a file that is to be repaired, and the names that its new and its old content get beside each.

A file with several names has to keep them all: one that was left out would go on leading to the damaged bytes, and be
another file from then on. So it is refused unless each of them is known.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from integrity.catalog import files
from integrity.catalog.repair_journal import Place
from integrity.errors import show_path
from integrity.files.excludes import KEPT_ID_DIGITS
from integrity.files.mounts import mount_of
from integrity.files.open_beneath import open_beneath, stat_beneath
from integrity.files.stamps import fold_inode
from integrity.jobs.repairing.expected import Expected, load_expected
from integrity.paths import absolute, shell_path

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun

MADE_SUFFIX = b".new"
_USUAL_NAME_MAX = 255


def find_names(
    run: RootRun, connection: Connection, record: FileRecord, stat: os.stat_result, expected: Expected
) -> tuple[list[FileRecord], str | None]:
    """
    Find the records of all names of a file; the given one is the first.

    Returns:
        The records, and why the file can't be repaired, if so.
    """
    if stat.st_nlink <= 1:
        return [record], None
    same = files.find_by_inode(connection, run.catalog.sealer, run.root.id, fold_inode(stat.st_ino))
    others = [one for one in same if one.id != record.id and _leads_to(run.root_fd, one.path, stat)]
    found = [record, *others]
    if len(found) != stat.st_nlink:
        mount = mount_of(absolute(run.root.path, record.path))
        known = ", ".join(show_path(one.path) for one in found)
        return found, (
            f"it has {stat.st_nlink} names and only {len(found)} of them are known ({known}): all have to be exchanged"
            f" together. Find the others with: find {shell_path(mount.mount_point)} -xdev -inum"
            f" {stat.st_ino}; have them recorded with: integrity scan, or remove them"
        )
    for other in others:
        theirs = load_expected(connection, run.catalog.sealer, other)
        if theirs is None or not theirs.is_same_as(expected):
            return found, (
                f"its other name {show_path(other.path)} was recorded with other content, or its record is damaged:"
                " look at both with: integrity explain"
            )
    return found, None


def _leads_to(root_fd: int, path: bytes, stat: os.stat_result) -> bool:
    try:
        there = stat_beneath(root_fd, path)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino)


def make_place(root_fd: int, path: bytes, repair_id: str) -> Place:
    """
    Give names beside one name of a file.

    Raises:
        OSError: its folder can't be opened.
    """
    folder, _, name = path.rpartition(b"/")
    fd = open_beneath(root_fd, folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        most = os.fpathconf(fd, "PC_NAME_MAX")
    except OSError:
        most = _USUAL_NAME_MAX
    finally:
        os.close(fd)
    kept = name_kept(name, repair_id, most)
    return Place(folder, name, kept + MADE_SUFFIX, kept)


def name_kept(name: bytes, repair_id: str, most: int = _USUAL_NAME_MAX) -> bytes:
    """
    Name what is kept of a file; a long name is shortened, between two characters of UTF-8.

    A name in another encoding may be all bytes that go on a character: no character has more than three of them.
    """
    ending = b".integrity-" + repair_id.encode()
    room = most - len(ending) - len(MADE_SUFFIX) - 1
    ends = [end for end in range(room, room - 4, -1) if end >= len(name) or name[end] & 0xC0 != 0x80]
    return b"." + name[: ends[0] if ends else room] + ending


def make_id() -> str:
    """Make the random part of the names of one repair."""
    return os.urandom(KEPT_ID_DIGITS // 2).hex()
