"""
New names of known files: they inherit the baseline that their content is to be held against.

A new name of a recorded inode inherits its record. A copy of known damage inherits the baseline of the damaged file,
with what is open about it. A name that comes back with its old size and time inherits the baseline that it had. None of
them is ever recorded as it is found (R6), and none inherits a verification.

I1  An inherited baseline is never newer than the content that it is held against.

New names of files that history knows: what came back has to be what it was.

A file is back if it has the inode of a former baseline, or the name, the size and the mtime of a deleted file. Damage
yields bytes that nobody has seen before, so content that is recorded of another file of the root is that file's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import baselines, candidates, files, findings, history, removal, roots
from integrity.catalog.baselines import replace_baseline
from integrity.catalog.candidates import CandidateState
from integrity.catalog.findings import NewFinding
from integrity.catalog.rows import FileContent, when_looked_at
from integrity.errors import show_path
from integrity.jobs import messages
from integrity.jobs.judge.inodes import is_same_inode
from integrity.kinds import CONTENT_FINDINGS
from integrity.model import BaselineReason, FileId, Reading, RootId
from integrity.paths import absolute

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from integrity.catalog.baselines import NewFile
    from integrity.catalog.candidates import CandidateRecord
    from integrity.catalog.connection import Connection
    from integrity.catalog.history import HistoryRecord
    from integrity.catalog.rows import FileRecord
    from integrity.jobs.context import RootRun
    from integrity.model import Capability, Witness
    from integrity.verdict import Judgement


_NEVER_NS = 0
"""A ctime that no file has, for a baseline that was taken of another inode."""


def record_links(
    run: RootRun, connection: Connection, names: Sequence[tuple[bytes, FileRecord]]
) -> list[FileId | None]:
    """
    Record new names of recorded inodes; nothing is read.

    The witness is inherited, too: making the link moved the ctime, but whether anything else did can't be told.

    Args:
        run: which met them.
        connection: in a transaction.
        names: the path of each, and the record of its inode.

    Returns:
        The number of each new file; None if what is recorded is damaged, so that the file must be read.
    """
    links = [
        baselines.Inherited(
            path,
            record.witness,
            record,
            when_looked_at(record.verified_at, record.recorded_at, run.now()),
            record.boot_id,
        )
        for path, record in names
    ]
    ids = baselines.inherit_baselines(connection, run.catalog.sealer, run.root, links, because=BaselineReason.INHERITED)
    for file_id, (path, record) in zip(ids, names, strict=True):
        if file_id is not None and record.is_frozen:
            _inherit_findings(run, connection, path, record, file_id)
    return ids


def _inherit_findings(run: RootRun, connection: Connection, path: bytes, record: FileRecord, file_id: FileId) -> None:
    """Let a new name of a file with an open finding have that, too, and what was last seen of the file."""
    candidate = candidates.get_candidate(connection, record.id)
    reading = None if candidate is None else candidates.load_candidate(connection, candidate)
    if candidate is not None and reading is not None:
        _keep(run, connection, file_id, reading, candidate)
    _repeat_findings(run, connection, record.id, (run.root.id, file_id, path), messages.linked)


def record_copy(
    run: RootRun, connection: Connection, path: bytes, reading: Reading, damage: CandidateRecord
) -> FileId | None:
    """
    Record a new file whose content is the known damage of another one, of any root.

    Returns:
        The number of the new file; None if the record of the other one is damaged.
    """
    original = files.get_file(connection, run.catalog.sealer, damage.file_id)
    if not original.is_sealed:
        return None
    copy = baselines.Inherited(path, reading.witness, original, original.recorded_at, original.boot_id)
    [file_id] = baselines.inherit_baselines(
        connection, run.catalog.sealer, run.root, [copy], because=BaselineReason.INHERITED
    )
    if file_id is not None:
        _keep(run, connection, file_id, reading, damage)
        _repeat_findings(run, connection, original.id, (run.root.id, file_id, path), messages.copied)
    return file_id


def move_to_copy(run: RootRun, connection: Connection, path: bytes, reading: Reading, damage: CandidateRecord) -> None:
    """Let the record of a damaged file, which is gone from its name, go on where its content was copied to."""
    removal.move_to_copy(connection, run.catalog.sealer, run.root, damage.file_id, path, reading.witness, run.now())
    _keep(run, connection, damage.file_id, reading, damage)


def replace_by_baseline(
    run: RootRun,
    connection: Connection,
    copy: FileRecord,
    original: FileRecord,
    reading: Reading | None = None,
    written: Judgement | None = None,
) -> bool:
    """
    Give a recorded file whose content is the damage of another the baseline that it should have.

    So also if it is the other one, which was renamed over it, and written to.

    Args:
        run: which found the damage.
        connection: in a transaction.
        copy: the file, of any root.
        original: the damaged file, whose candidate is the damage.
        reading: the copy's content by now; None: it is recorded with it, from before the damage was known.
        written: what judging says of that, if it is not the damage any more but what was written to it.

    Returns:
        Whether it was done; not if one of the records is damaged, or changed meanwhile.
    """
    sealer = run.catalog.sealer
    damage = candidates.get_candidate(connection, original.id)
    present = next(iter(files.find_files(connection, sealer, [copy.id])), None)
    if damage is None or present is None or present.version != copy.version or present.is_frozen:
        return False
    found = reading or baselines.load_content(connection, sealer, present, present.witness)
    right = None if found is None else baselines.load_content(connection, sealer, original, found.witness)
    if found is None or right is None:
        return False
    replace_baseline(
        *(connection, sealer, roots.get_root(connection, copy.root_id), copy.id, right),
        because=BaselineReason.INHERITED if written is None else BaselineReason.MOVED,
        now=run.now(),
        boot_id=original.boot_id,
    )
    kept = damage if written is None else replace(damage, verdict=written.verdict.value, because=written.because)
    _keep(run, connection, copy.id, found, kept)
    describe = messages.copied if written is None else messages.renamed
    _repeat_findings(run, connection, original.id, (copy.root_id, copy.id, copy.path), describe)
    return True


def replace_successor(run: RootRun, connection: Connection, copy: FileRecord, record: FileRecord) -> bool:
    """Give a new file the baseline of the one that is gone and that it should be; say whether that could be done."""
    witness = copy.witness._replace(ctime_ns=_NEVER_NS)
    right = baselines.load_content(connection, run.catalog.sealer, record, witness)
    if right is None or not copy.is_sealed or copy.is_frozen:
        return False
    replace_baseline(
        *(connection, run.catalog.sealer, run.root, copy.id, right),
        because=BaselineReason.INHERITED,
        now=run.now(),
        boot_id=record.boot_id,
    )
    baselines.mark_suspects(connection, {copy.id: None})
    return True


def record_former(
    run: RootRun, connection: Connection, path: bytes, reading: Reading, former: HistoryRecord, *, has_inode: bool
) -> FileId | None:
    """
    Record a file that is back, to be held against what was recorded of it; its history goes on.

    Args:
        run: which read it.
        connection: in a transaction.
        path: its name.
        reading: of it.
        former: the baseline that it had.
        has_inode: the inode is the one that had it, and was only out of sight. Else the witness has the times of the
            reading, but a ctime that no file has: what differs was put there under the old time of modification.
    """
    witness = former.witness
    if not has_inode:
        witness = reading.witness._replace(ctime_ns=_NEVER_NS, is_racy=former.is_racy)
    because = BaselineReason.INHERITED if has_inode else BaselineReason.RESTORED
    back = baselines.Inherited(path, witness, former, former.recorded_at, run.boot_id)
    [file_id] = baselines.inherit_baselines(connection, run.catalog.sealer, run.root, [back], because=because)
    if file_id is not None and former.file_id is not None:
        history.adopt_history(connection, former.file_id, file_id)
    return file_id


def _keep(run: RootRun, connection: Connection, file_id: FileId, reading: Reading, damage: CandidateRecord) -> None:
    record = files.get_file(connection, run.catalog.sealer, file_id)
    candidates.stage_change(
        connection, record, reading, damage.verdict, run.run_id, CandidateState.FROZEN, damage.because
    )


def _repeat_findings(
    run: RootRun,
    connection: Connection,
    of_file: FileId,
    place: tuple[RootId, FileId, bytes],
    describe: Callable[[str, str], str],
) -> None:
    """Open what is open about the content of one file for another, too."""
    root_id, file_id, path = place
    for one in findings.find_open_of_files(connection, [of_file]).get(of_file, ()):
        if one.kind not in CONTENT_FINDINGS or one.copy is not None:
            continue
        new = NewFinding(
            one.kind,
            root_id,
            file_id,
            path,
            describe(show_path(absolute(one.root, one.path or b"")), one.message),
            certainty=one.certainty,
            blocks=one.blocks,
            block_size_bytes=one.block_size_bytes,
            ranges=one.ranges,
            confirmed_reads=one.confirmed_reads,
        )
        finding, is_new = findings.open_finding(connection, new, now=run.now(), run_id=run.run_id)
        run.counts.findings_opened += is_new and finding.incident is None
        run.meet(finding)


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
