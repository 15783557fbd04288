"""
New names of files that history knows: what came back has to be what it was.

A file is back if it has the inode of a former baseline, or the name, the size and the mtime of a deleted file. Damage
yields bytes that nobody has seen before, so content that is recorded of another file of the root is that file's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, history
from integrity.catalog.rows import FileContent
from integrity.jobs.judge.inodes import is_same_inode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integrity.catalog.baselines import NewFile
    from integrity.catalog.connection import Connection
    from integrity.catalog.history import HistoryRecord
    from integrity.jobs.context import RootRun
    from integrity.model import Capability, Reading, Witness

_SECOND_NS = 1_000_000_000

_RESTORED_UNITS_NS = (_SECOND_NS, 1_000, 100)
"""What tools keep of an mtime: tar seconds, older programs microseconds, SMB and zip 100 ns; others all of it."""


class Former(NamedTuple):
    """What a new file was before, by a former baseline."""

    record: HistoryRecord
    has_inode: bool  # it is the inode that had it; else another one has its name, size and mtime


def find_formers(run: RootRun, connection: Connection, rows: Sequence[NewFile]) -> dict[bytes, Former]:
    """
    Find the former files that new ones should be, but with other content; by their names.

    If what a name had is recorded elsewhere, that file was moved, and its name is used again.
    """
    found = {row.path: (row, former) for row in rows if (former := _find_former(run, connection, *row)) is not None}
    if not found:
        return {}
    sealer = run.catalog.sealer
    present = [
        FileContent(row.reading.witness.size_bytes, row.reading.digests, row.reading.blocks)
        for row, _ in found.values()
    ]
    past = [FileContent(former.record.size_bytes, former.record.digests, None) for _, former in found.values()]
    same = files.find_by_content(connection, sealer, run.root.id, present + past)
    return {
        path: former
        for (path, (_, former)), others, moved in zip(
            found.items(), same[: len(found)], same[len(found) :], strict=True
        )
        if not (others or (moved and not former.has_inode))
    }


def _find_former(run: RootRun, connection: Connection, path: bytes, reading: Reading) -> Former | None:
    """
    Find the former file that a new one should be, but with other content.

    That is one whose inode it has, or a deleted one of its name, size and mtime. None if its content is that of any
    such file, or an older version of it.
    """
    witness, md5 = reading.witness, reading.digests.md5
    if md5 is None or not witness.size_bytes:
        return None
    if run.capability.has_stable_inodes:
        one = history.find_former_of_inode(connection, run.root.id, witness)
        if one is not None and is_same_inode(run.root_fd, path, one):
            return None if one.digests.md5 in (md5, None) else Former(one, True)
    found = history.find_deleted_of_time(connection, run.root.id, witness.size_bytes, _as_restored(witness.mtime_ns))
    key = find_rename_key(run.capability, path, witness)
    here = [one for one in found if one.path == path]
    elsewhere = [one for one in found if key is not None and key[2] in (b"", one.path.rpartition(b"/")[2])]
    formers = here[:1] or (elsewhere if len(elsewhere) == 1 else [])
    if not formers or any(one.digests.md5 in (md5, None) for one in found):
        return None
    versions = history.history_of(connection, run.root.id, formers[0].path)
    return None if any(one.digests.md5 == md5 for one in versions) else Former(formers[0], False)


def find_rename_key(capability: Capability, path: bytes, witness: Witness) -> tuple[int, int, bytes] | None:
    """
    Tell a file by its size, its mtime and, where its inode would tell if it was renamed, by its name.

    None if the mtime is a whole second, which many share, or if it has no content.
    """
    if not witness.size_bytes or witness.mtime_ns % _SECOND_NS == 0:
        return None
    name = path.rpartition(b"/")[2] if capability.has_stable_inodes else b""
    return witness.size_bytes, witness.mtime_ns, name


def _as_restored(mtime_ns: int) -> tuple[int, int]:
    """Give the first and the last mtime that a restore may have brought back as this one: some tools cut it off."""
    unit = next((unit for unit in _RESTORED_UNITS_NS if mtime_ns % unit == 0), 1)
    return mtime_ns, mtime_ns + unit - 1
