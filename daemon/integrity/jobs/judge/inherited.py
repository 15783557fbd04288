"""
Give new names of known files the baseline that their content is compared with.

A new name of a recorded inode inherits its record. A copy of known damage inherits the baseline of the damaged file and
its open findings. A file that is back inherits its former baseline: it has the inode of a former baseline, or the name,
size and mtime of a deleted file. Content that is recorded of another file of the root is that file's, because damage
yields unknown bytes. No baseline is taken from the file as found (R6), and no verification is inherited.

I1  An inherited baseline is never newer than the content that it is compared with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import baselines, files, findings, roots, versions
from integrity.catalog.baselines import replace_baseline
from integrity.catalog.findings import NewFinding
from integrity.catalog.rows import FileContent, get_last_check
from integrity.catalog.versions import VersionState
from integrity.errors import show_path
from integrity.files.open_beneath import stat_beneath
from integrity.files.stamps import witness_of
from integrity.jobs import messages
from integrity.jobs.judge.content_diff import is_candidate
from integrity.jobs.judge.evidence import is_recorded_later
from integrity.jobs.judge.inodes import is_same_inode
from integrity.kinds import CONTENT_FINDINGS
from integrity.model import BaselineReason, FileId, Reading, RootId
from integrity.paths import absolute
from integrity.same_time import GRAINS_NS, is_same_time
from integrity.verdict import compare_witness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from integrity.catalog.baselines import NewFile
    from integrity.catalog.connection import Connection
    from integrity.catalog.rows import FileRecord
    from integrity.catalog.versions import FileVersion
    from integrity.jobs.context import RootRun
    from integrity.model import Capability, Witness
    from integrity.verdict import Judgement


_FORCE_CTIME_MISMATCH_NS = 0
"""A ctime that no file has, for a baseline taken from another inode."""


def record_links(
    run: RootRun, connection: Connection, names: Sequence[tuple[bytes, FileRecord]]
) -> list[FileId | None]:
    """
    Record new names of recorded inodes without reading them.

    The witness is inherited as well: creating the link changed the ctime, and it is unknown whether anything else did.

    Returns:
        The id of each new file; None if its blocks are lost, so that the file must be read.
    """
    links = [
        baselines.Inherited(
            path,
            record.witness,
            record,
            get_last_check(record.verified_at, record.recorded_at, run.now()),
            record.boot_id,
        )
        for path, record in names
    ]
    ids = baselines.inherit_baselines(connection, run.root, links, because=BaselineReason.INHERITED)
    for file_id, (path, record) in zip(ids, names, strict=True):
        if file_id is not None and record.is_frozen:
            _inherit_findings(run, connection, path, record, file_id)
    return ids


def _inherit_findings(run: RootRun, connection: Connection, path: bytes, record: FileRecord, file_id: FileId) -> None:
    """Copy the open findings and the candidate of a file to a new name of it."""
    candidate = versions.get_candidate(connection, record.id)
    reading = None if candidate is None else versions.load_version(connection, candidate, candidate.witness)
    if candidate is not None and reading is not None:
        _stage_damage(run, connection, file_id, reading, candidate)
    _repeat_findings(run, connection, record.id, (run.root.id, file_id, path), messages.linked)


def record_copy(
    run: RootRun, connection: Connection, path: bytes, reading: Reading, damage: FileVersion
) -> FileId | None:
    """
    Record a new file whose content is the known damage of another file, of any root.

    Returns:
        The id of the new file; None if the other file's blocks are lost.
    """
    original = files.get_file(connection, damage.file_id)
    copy = baselines.Inherited(path, reading.witness, original, original.recorded_at, original.boot_id)
    [file_id] = baselines.inherit_baselines(connection, run.root, [copy], because=BaselineReason.INHERITED)
    if file_id is not None:
        _stage_damage(run, connection, file_id, reading, damage)
        _repeat_findings(run, connection, original.id, (run.root.id, file_id, path), messages.copied)
    return file_id


def move_to_copy(run: RootRun, connection: Connection, path: bytes, reading: Reading, damage: FileVersion) -> None:
    """Move the record of a damaged file whose name is gone to the copy of its content."""
    baselines.move_to_copy(connection, run.root, damage.file_id, path, reading.witness, run.now())
    _stage_damage(run, connection, damage.file_id, reading, damage)


def replace_by_baseline(
    run: RootRun,
    connection: Connection,
    copy: FileRecord,
    original: FileRecord,
    reading: Reading | None = None,
    written: Judgement | None = None,
) -> bool:
    """
    Replace the baseline of a file whose content is another file's damage by that file's correct baseline.

    Also for the damaged file itself, renamed over the recorded one and written to.

    Args:
        copy: the record of the copy, of any root.
        original: the damaged file, whose candidate is the damage.
        reading: the current content of the copy; None: as recorded, before the damage was known.
        written: the judgement of that content, if the file was written to after it was damaged.

    Returns:
        Whether it was replaced; False if a record changed meanwhile, or its blocks are lost.
    """
    damage = versions.get_candidate(connection, original.id)
    present = next(iter(files.find_files(connection, [copy.id])), None)
    if damage is None or present is None or present.version != copy.version or present.is_frozen:
        return False
    found = reading or versions.load_version(connection, present, present.witness)
    right = None if found is None else versions.load_version(connection, original, found.witness)
    if found is None or right is None:
        return False
    replace_baseline(
        *(connection, roots.get_root(connection, copy.root_id), copy.id, right),
        because=BaselineReason.INHERITED if written is None else BaselineReason.MOVED,
        now=run.now(),
        boot_id=original.boot_id,
    )
    kept = damage if written is None else damage._replace(verdict=written.verdict.value, reason=written.because)
    _stage_damage(run, connection, copy.id, found, kept)
    describe = messages.copied if written is None else messages.renamed
    _repeat_findings(run, connection, original.id, (copy.root_id, copy.id, copy.path), describe)
    return True


def replace_successor(run: RootRun, connection: Connection, copy: FileRecord, record: FileRecord) -> bool:
    """Give a new file the baseline of the missing file it should equal; return whether that was possible."""
    witness = copy.witness._replace(ctime_ns=_FORCE_CTIME_MISMATCH_NS)
    right = versions.load_version(connection, record, witness)
    if right is None or copy.is_frozen:
        return False
    replace_baseline(
        *(connection, run.root, copy.id, right),
        because=BaselineReason.INHERITED,
        now=run.now(),
        boot_id=record.boot_id,
    )
    baselines.mark_suspects(connection, {copy.id: None})
    return True


def record_former(
    run: RootRun, connection: Connection, path: bytes, reading: Reading, former: FileVersion, *, has_inode: bool
) -> FileId | None:
    """
    Record a file that is back with its former baseline; its history continues, unless it is that of another root.

    Args:
        has_inode: the inode is the former one, which was only out of sight. Otherwise the witness gets the times of the
            reading but a ctime that no file has, so that other content counts as written under the old mtime.
    """
    witness = former.witness
    if not has_inode:
        witness = reading.witness._replace(ctime_ns=_FORCE_CTIME_MISMATCH_NS, is_racy=former.witness.is_racy)
    because = BaselineReason.INHERITED if has_inode else BaselineReason.RESTORED
    back = baselines.Inherited(path, witness, former, former.recorded_at, run.boot_id)
    [file_id] = baselines.inherit_baselines(connection, run.root, [back], because=because)
    if file_id is not None and former.root_id == run.root.id:
        versions.adopt_former(connection, former.file_id, file_id)
    return file_id


def _stage_damage(run: RootRun, connection: Connection, file_id: FileId, reading: Reading, damage: FileVersion) -> None:
    record = files.get_file(connection, file_id)
    versions.stage_change(connection, record, reading, damage.verdict, run.run_id, VersionState.FROZEN, damage.reason)


def _repeat_findings(
    run: RootRun,
    connection: Connection,
    of_file: FileId,
    place: tuple[RootId, FileId, bytes],
    describe: Callable[[str, str], str],
) -> None:
    """Open the content findings of one file for another file."""
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
        run.queue_finding(finding)


class InQuestion(NamedTuple):
    """Content with an open finding, and the record of its file."""

    content: FileVersion
    original: FileRecord


class KnownDamage:
    """Cache the content with open findings, loaded on first use."""

    def __init__(self) -> None:
        self._by_size: dict[int, list[FileVersion]] | None = None

    def has_any(self, connection: Connection) -> bool:
        """Return whether any content has an open finding."""
        return bool(self._load(connection))

    def _load(self, connection: Connection) -> dict[int, list[FileVersion]]:
        if self._by_size is None:
            self._by_size = {}
            for candidate in versions.find_in_question(connection):
                if candidate.witness is not None:
                    self._by_size.setdefault(candidate.witness.size_bytes, []).append(candidate)
        return self._by_size

    def find(self, connection: Connection, reading: Reading) -> InQuestion | None:
        """Return the content that equals a reading, if its finding is still open."""
        for candidate in self._load(connection).get(reading.witness.size_bytes, ()):
            if is_candidate(connection, candidate, reading, 0):
                found = files.find_files(connection, [candidate.file_id])
                if found and found[0].is_frozen:
                    return InQuestion(candidate, found[0])
        return None


def find_copies(run: RootRun, damaged: Sequence[tuple[FileRecord, FileContent]]) -> list[tuple[FileRecord, FileRecord]]:
    """
    Return the files, of all roots, that were recorded with newly confirmed damage, each with the damaged original.

    A file recorded while the original was still intact owns this content: its block was misdirected.
    """
    with run.catalog.read() as connection:
        found = files.find_by_content(connection, None, [content for _, content in damaged])
    return [
        (copy, original)
        for (original, _), copies in zip(damaged, found, strict=True)
        for copy in copies
        if copy.id != original.id
        and is_recorded_later(copy, original)
        and not (copy.is_frozen or _was_written(run, copy))
    ]


def _was_written(run: RootRun, record: FileRecord) -> bool:
    """Return whether a file of this root changed since it was recorded; the job that reads it judges it."""
    if record.root_id != run.root.id:
        return False
    try:
        seen = witness_of(stat_beneath(run.root_fd, record.path))
    except OSError:
        return True
    return compare_witness(run.capability, record.witness, seen).touches_content


_SECOND_NS = 1_000_000_000


class Former(NamedTuple):
    """The former baseline that a new file should equal."""

    record: FileVersion
    has_inode: bool  # the same inode; otherwise only name, size and time are the same


def find_formers(
    run: RootRun, connection: Connection, rows: Sequence[NewFile], place: RootId | str
) -> dict[bytes, Former]:
    """
    Return, by path, the former files that new files should equal but do not.

    If the former content is recorded elsewhere, that file was moved and its name reused.

    Args:
        place: the root, or its file system, from whose other roots a file may have been moved here.
    """
    found = {
        row.path: (row, former) for row in rows if (former := _find_former(run, connection, *row, place)) is not None
    }
    if not found:
        return {}
    present = [
        FileContent(row.reading.witness.size_bytes, row.reading.digests, row.reading.blocks)
        for row, _ in found.values()
    ]
    past = [FileContent(former.record.witness.size_bytes, former.record.digests, None) for _, former in found.values()]
    same = files.find_by_content(connection, run.root.id, present + past)
    return {
        path: former
        for (path, (_, former)), others, moved in zip(
            found.items(), same[: len(found)], same[len(found) :], strict=True
        )
        if not (others or (moved and not former.has_inode))
    }


def _find_former(
    run: RootRun, connection: Connection, path: bytes, reading: Reading, place: RootId | str
) -> Former | None:
    """
    Return the former file that a new file should equal but does not.

    That is a former baseline of its inode, or a deleted file with its name, size and mtime. None if the content is that
    of any such file or of an older version of it.
    """
    witness, md5 = reading.witness, reading.digests.md5
    if md5 is None or not witness.size_bytes:
        return None
    if run.capability.has_stable_inodes:
        one = versions.find_former_of_inode(connection, place, witness)
        if one is not None and is_same_inode(run.root_fd, path, one):
            return None if one.digests.md5 in (md5, None) else Former(one, True)
    found = versions.find_deleted(connection, run.root.id, witness)
    here = [one for one in found if one.path == path]
    name = find_rename_keys(run.capability, path, witness)[0][2]
    renamed = [one for one in found if is_renamed(one.witness, witness.mtime_ns)]
    elsewhere = [one for one in renamed if name in (b"", one.path.rpartition(b"/")[2])]
    formers = here[:1] or (elsewhere if len(elsewhere) == 1 else [])
    if not formers or any(one.digests.md5 in (md5, None) for one in found):
        return None
    past = versions.former_of(connection, run.root.id, formers[0].path)
    return None if any(one.digests.md5 == md5 for one in past) else Former(formers[0], False)


RenameKey = tuple[int, int, bytes]
"""Size, minute of the time, and base name of a file; the name is empty where inodes are not stable."""


def find_rename_keys(capability: Capability, path: bytes, witness: Witness) -> tuple[RenameKey, RenameKey, RenameKey]:
    """Return the key of a file, and those that it has under the same time at another grain."""
    name, minute = path.rpartition(b"/")[2] if capability.has_stable_inodes else b"", witness.mtime_ns // GRAINS_NS[0]
    size_bytes = witness.size_bytes
    return (size_bytes, minute, name), (size_bytes, minute - 1, name), (size_bytes, minute + 1, name)


def is_renamed(former: Witness, mtime_ns: int) -> bool:
    """
    Return whether the time of a new file under another name is that of a former one.

    Not for empty files, nor if both times are whole seconds, which many files share.
    """
    is_shared = former.mtime_ns % _SECOND_NS == 0 == mtime_ns % _SECOND_NS
    return former.size_bytes > 0 and not is_shared and is_same_time(former.mtime_ns, mtime_ns)
