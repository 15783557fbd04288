"""
Decide which record belongs to which name that a walk found. Pure.

A file that was renamed and written to as well is new, unless it has an open finding, which goes along, or changed
names with others in a circle, or is of a growing root: there every file is written to before it is renamed.

I1  Each record gets one name at most, and each name one record.
I2  A record leaves its name only if that leads to another inode or to none.
I3  A file that was put aside (``a~`` beside ``a``) takes no record from the name that it had.
I4  A move comes after that of the record which has its name, unless they go in a circle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from integrity.catalog.rows import FileRecord
from integrity.files.listing import Seen
from integrity.jobs.judge.inodes import TreePlace, WalkedName, is_backup_name, is_inode_of
from integrity.model import FileId, Witness
from integrity.same_time import is_unwritten


class InodeRecord(NamedTuple):
    """A record whose file had the inode when it was last seen."""

    record: FileRecord
    last: Witness  # with which it was last seen
    keeps_name: bool  # its name still leads to its inode, or cannot lose it
    has_inode: bool  # its name still leads to its inode
    is_there: bool  # its name leads to some file


class Move(NamedTuple):
    """
    A record that follows its file.

    Args:
        path: its name in the catalog.
        place: where its file was found.
        seen: the stat there.
        former: its name before the run.
        is_written: the file has another size or time than recorded, and no open finding.
    """

    file_id: FileId
    version: int
    path: bytes
    place: TreePlace
    seen: Seen
    former: bytes
    is_written: bool


class Matches(NamedTuple):
    """Moved files, and new links of files that keep their names or moved."""

    moved: list[Move]
    linked: list[tuple[FileRecord, TreePlace]]


def match_names(
    names: Sequence[WalkedName], records: Sequence[InodeRecord], birth_ns: int | None, *, is_growing: bool = False
) -> Matches:
    """
    Match the names under which an inode was found with its records.

    Names without a record come first: a name that has one gets another only if its own record leaves. In which order
    a walk met them says nothing.

    Args:
        records: by id.
        birth_ns: of the inode; None: the file system keeps none.
        is_growing: the root is.
    """
    found, taken = Matches([], []), set[FileId]()
    for name in sorted(names, key=lambda one: (one.is_recorded, one.place)):
        fitting = [one for one in records if _is_owner(one, name, birth_ns, is_growing=is_growing)]
        free = [one for one in fitting if not (one.keeps_name or one.record.id in taken)]
        kept = [one.record for one in fitting if is_unwritten(one.last, name.witness)]
        if free:
            record = min((one.record for one in free), key=lambda one: (_get_name(one) != name.place.name, one.id))
            is_written = not (record.is_frozen or record in kept)
            taken.add(record.id)
            found.moved.append(
                Move(record.id, record.version, record.path, name.place, name.seen, record.path, is_written)
            )
        elif kept and not name.is_recorded:  # the oldest baseline: a younger one may have been recorded after damage
            found.linked.append((min(kept, key=lambda one: one.recorded_at), name.place))
    return found


def _get_name(record: FileRecord) -> bytes:
    return TreePlace.of(record.path).name


def _is_owner(one: InodeRecord, name: WalkedName, birth_ns: int | None, *, is_growing: bool) -> bool:
    """Return whether the inode under a name is the recorded one."""
    record, last = one.record, one.last
    if not name.is_recorded and one.is_there and is_backup_name(name.place.path, record.path):
        return False
    is_kept = is_unwritten(last, name.witness)
    if birth_ns is None and not is_kept:
        return False
    is_sure = is_kept or record.is_frozen or name.is_recorded or is_growing
    return is_sure and is_inode_of(last, birth_ns, is_known=one.has_inode or record.is_frozen)


def in_order(moves: Iterable[Move], *, is_growing: bool = False) -> list[Move]:
    """
    Return moves so that each name is left before another record gets it (I4); circles begin anywhere.

    Unless the root is growing, a file that was written to is new under a name that is free now. In a circle it follows
    its inode, for its name would be judged by the record of another file.
    """
    by_path, ordered = {move.path: move for move in moves}, list[Move]()
    while by_path:
        row = [by_path.popitem()[1]]
        while (after := by_path.pop(row[-1].place.path, None)) is not None:
            row.append(after)
        is_circle = row[-1].place.path == row[0].path
        ordered += [move for move in reversed(row) if is_circle or is_growing or not move.is_written]
    return ordered
