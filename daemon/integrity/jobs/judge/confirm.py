"""
Confirm a mismatch before it is reported as rot (R3).

A mismatch is read twice more, from the disk, including holes, some seconds apart, with MD5 beside XXH3. In files of
several blocks only the mismatched blocks are read. ``verdict.confirm`` interprets the readings.

A read through the file system returns one copy of a mirror, so one good read does not resolve a finding. Where the
devices are readable, each copy is read separately. Otherwise ``repair`` rewrites blocks that read well.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from xxhash import xxh3_128_digest

from integrity.catalog import findings
from integrity.catalog.rows import FileRecord, require_current
from integrity.catalog.runs import Interruption
from integrity.errors import ReadError, RecordSuperseded, Unstable, show_path
from integrity.files.buffers import Buffers
from integrity.files.mirrors import read_copies
from integrity.files.open_beneath import open_beneath
from integrity.files.read import OpenFile, Reader, Segment
from integrity.files.span import ReadMode
from integrity.hashing.digests import FileHasher, Want, want_to_confirm
from integrity.hashing.md5 import Md5
from integrity.hashing.tasks import Done
from integrity.jobs import messages
from integrity.jobs.byte_pattern import ByteRun, FillFinder, describe_end, describe_fills
from integrity.jobs.judge.account import Conclusion
from integrity.jobs.judge.content_diff import block_ranges, group_adjacent, load_baseline
from integrity.jobs.judge.inodes import leads_to
from integrity.model import BaselineReason, FindingKind, Reading, Tally, Witness
from integrity.same_time import is_same_time
from integrity.verdict import FINDINGS_OF_ARCHIVES, Confirmation, Judgement, Pair, confirm, finding_of, is_match

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


_UNREADABLE = Pair(b"", b"")
"""The digests of a copy that could not be read: equal to no others."""


def _digest_copies(run: RootRun, record: FileRecord, index: int) -> list[tuple[str, Pair]]:
    """
    Return the digests of a block, or of a one-block file, on each device of the root's mirror.

    Returns:
        (device, digests) pairs; empty without a mirror or if its copies can't be read separately.
    """
    size = record.block_size_bytes or record.witness.size_bytes
    length = min(size, record.witness.size_bytes - index * size)
    if run.mirror is None or length <= 0:
        return []
    try:
        fd = open_beneath(run.root_fd, record.path, os.O_RDONLY)
    except OSError:
        return []  # deleted or replaced since: its copies are unknown
    with open(fd, "rb", buffering=0):
        copies = read_copies(run.mirror, fd, index * size, length)
    return [
        (copy.device, _UNREADABLE if copy.data is None else Pair(xxh3_128_digest(copy.data), Md5(copy.data).digest()))
        for copy in copies
    ]


def find_doubtful_blocks(run: RootRun, record: FileRecord, seen: Witness) -> tuple[int, ...]:
    """
    Return the blocks of a file that a copy of the mirror may still hold damaged, although the last read was good.

    ``seen`` is the current witness: a new mtime or inode means new data, which is equal in every copy.

    Returns:
        The blocks that open findings call damaged, in order, without those that every copy holds correctly.
    """
    is_new = seen.inode != record.witness.inode or not is_same_time(seen.mtime_ns, record.witness.mtime_ns)
    if run.mirror is None or is_new:
        return ()
    kinds = (FindingKind.ROT, FindingKind.SILENT_REWRITE)
    with run.catalog.read() as connection:
        found = findings.find_findings(connection, root_id=run.root.id, prefix=record.path, copy="")
        reported = {block for one in found if one.path == record.path and one.kind in kinds for block in one.blocks}
        baselines = {block: load_baseline(connection, record, block) for block in sorted(reported)}
    doubtful: list[int] = []
    for block, baseline in baselines.items():
        copies = _digest_copies(run, record, block)
        if not copies or not all(is_match(baseline, pair) for _, pair in copies):
            doubtful.append(block)
    return tuple(doubtful)


REREADS = 2

_GRAVEST_FIRST = (
    Confirmation.CATALOG_DAMAGED,
    Confirmation.UNSTABLE,  # if one block is unstable, the others may be changing as well
    Confirmation.PERSISTENT,
    Confirmation.ONE_COPY,
    Confirmation.UNSTEADY,
)

_NOTHING_READ = Pair(None, None)


class Rereading(NamedTuple):
    """
    The mismatched blocks of a file, as read once more.

    Attributes:
        pairs: their digests by index; a one-block file is block 0.
        fills: aligned runs of one repeated byte in them.
    """

    pairs: dict[int, Pair]
    fills: tuple[ByteRun, ...]


class Mismatch(NamedTuple):
    """A mismatch that looks like damage and waits for confirmation."""

    record: FileRecord
    done: Done
    judgement: Judgement
    bad_blocks: tuple[int, ...]

    @property
    def reading(self) -> Reading:
        """The reading that did not match."""
        return self.done.reading


class ConfirmationResult(NamedTuple):
    """
    The result of re-reading a mismatch.

    Args:
        bad_blocks: blocks with the reported outcome.
        bad_devices: mirror devices with wrong data; empty if the copies could not be read separately.
        fills: aligned runs of one repeated byte in the blocks that were read.
    """

    confirmation: Confirmation
    bad_blocks: tuple[int, ...]
    bad_devices: tuple[str, ...] = ()
    fills: tuple[ByteRun, ...] = ()


Answer = ConfirmationResult | ReadError | RecordSuperseded


def identify(run: RootRun, mismatch: Mismatch) -> Hashable:
    """Return a key that is equal for mismatches that need the same read: hard links of one file."""
    if not run.capability.has_stable_inodes:
        return mismatch.record.id
    return mismatch.reading.witness.stamps, mismatch.record.block_size_bytes, mismatch.bad_blocks


def confirm_all(run: RootRun, mismatches: Sequence[Mismatch]) -> list[tuple[Mismatch, Answer]] | None:
    """
    Re-read mismatches in two rounds. All share the waiting time; hard links of one file share the reading.

    Returns:
        For each mismatch its result or the error; None if the job was asked to stop.
    """
    files: dict[Hashable, list[Mismatch]] = {}
    for one in mismatches:
        files.setdefault(identify(run, one), []).append(one)
    reader = run.reader(ReadMode.DISK, use_holes=False)
    rounds: list[dict[Hashable, Rereading | ReadError]] = []
    with Buffers() as buffers:
        for _ in range(REREADS if files else 0):
            if run.context.pause(run.context.pauses.confirm_s):
                return None
            rounds.append({key: _reread(run, reader, names[0], buffers) for key, names in files.items()})
    return [
        answer
        for key, names in files.items()
        for answer in _conclude_all(run, names, [readings[key] for readings in rounds])
    ]


def _reread(run: RootRun, reader: Reader, mismatch: Mismatch, buffers: Buffers) -> Rereading | ReadError:
    """Read the mismatched blocks."""
    record = mismatch.record
    pairs: dict[int, Pair] = {}
    fills = FillFinder()
    try:
        if record.block_size_bytes is None:
            with _open(run, reader, mismatch) as file:
                pairs[0] = read_whole(file, buffers, want_to_confirm(blake3="blake3" in run.settings.digests), fills)
        elif not mismatch.bad_blocks:  # only the size differs: nothing to read
            with _open(run, reader, mismatch):
                pairs[0] = _NOTHING_READ
        else:
            for first, count in group_adjacent(mismatch.bad_blocks):
                with _open(run, reader, mismatch) as file:
                    pairs |= _read_blocks(file, buffers, record, first, count, fills)
    except ReadError as error:
        return error
    return Rereading(pairs, fills.find())


@contextmanager
def _open(run: RootRun, reader: Reader, mismatch: Mismatch) -> Iterator[OpenFile]:
    """Open a file; on exit, raise Unstable if it changed since the reading that did not match (R1)."""
    with reader.open(mismatch.record.path) as file:
        yield file
        run.counts.bytes_read += file.bytes_read
        if file.finish().stamps != mismatch.reading.witness.stamps:
            raise _changed(mismatch)


def _changed(mismatch: Mismatch) -> Unstable:
    return Unstable(f"{show_path(mismatch.record.path)} changed before it could be read once more")


def _conclude_all(
    run: RootRun, names: Sequence[Mismatch], readings: Sequence[Rereading | ReadError]
) -> Iterator[tuple[Mismatch, Answer]]:
    """Evaluate the re-reads of one file for each of its names."""
    error = next((one for one in readings if isinstance(one, ReadError)), None)
    rereads = [one for one in readings if not isinstance(one, ReadError)]
    each_copy = {} if error else {index: _digest_copies(run, names[0].record, index) for index in rereads[0].pairs}
    for one in names:
        if error is not None:
            yield one, error
        elif one is names[0] or leads_to(run.root_fd, one.record.path, one.reading.witness):
            yield one, _conclude(run, one, rereads, each_copy)
        else:
            yield one, _changed(one)


def _conclude(
    run: RootRun, mismatch: Mismatch, rereads: Sequence[Rereading], each_copy: dict[int, list[tuple[str, Pair]]]
) -> ConfirmationResult | RecordSuperseded:
    verdicts: dict[int, Confirmation] = {}
    bad_devices: dict[str, None] = {}
    with run.catalog.read() as connection, connection.snapshot():
        try:
            require_current(connection, mismatch.record)  # its digests are deleted when the baseline is replaced
        except RecordSuperseded as error:
            return error
        for index, copies in each_copy.items():
            baseline, first = _pairs(connection, mismatch, index)
            bad_devices |= {device: None for device, pair in copies if not is_match(baseline, pair)}
            verdicts[index] = confirm(
                baseline,
                first,
                [reading.pairs[index] for reading in rereads],
                copies=1 if run.mirror is None else run.mirror.copies,
                each_copy=[pair for _, pair in copies],
                shows_writes=run.capability.shows_mapped_writes,
            )
    for confirmation in _GRAVEST_FIRST:
        blocks = tuple(index for index, value in verdicts.items() if value is confirmation)
        if blocks:
            bad_blocks = blocks if mismatch.bad_blocks else ()
            return ConfirmationResult(confirmation, bad_blocks, tuple(bad_devices), rereads[-1].fills)
    return ConfirmationResult(Confirmation.TRANSIENT, mismatch.bad_blocks)


def _pairs(connection: Connection, mismatch: Mismatch, index: int) -> tuple[Pair, Pair]:
    """Return the recorded digests and those of the first reading, for one block or for a one-block file."""
    record, digests = mismatch.record, mismatch.reading.digests
    if record.block_size_bytes is None:
        return load_baseline(connection, record, index), Pair(digests.xxh3_128, digests.md5)
    if not mismatch.bad_blocks:
        return _NOTHING_READ, _NOTHING_READ
    baseline = load_baseline(connection, record, index)
    assert baseline.xxh3_128 is not None  # true while the record is current
    return baseline, _NOTHING_READ


def describe_mismatch(
    run: RootRun, mismatch: Mismatch, outcome: ConfirmationResult, interruption: Interruption | None
) -> Conclusion:
    """Return the finding about a mismatch that was read again; ``interruption``: a possible crash before it."""
    record, judgement = mismatch.record, mismatch.judgement
    kind, certainty = finding_of(judgement.verdict, run.settings.policy), judgement.certainty
    assert kind is not None
    text = messages.describe(judgement, kind, interruption)
    if record.reason is BaselineReason.RESTORED and record.verified_at is None:
        text = messages.restored(record.recorded_at)
    is_persistent = outcome.confirmation is Confirmation.PERSISTENT
    is_one_copy = outcome.confirmation is Confirmation.ONE_COPY
    if run.mirror is not None and (is_one_copy or is_persistent):
        text += messages.on_mirror(run.mirror, outcome.bad_devices, is_one_copy=is_one_copy)
    elif not is_persistent:
        kind, certainty = FindingKind.TRANSIENT, None
        text = messages.transient(is_unsteady=outcome.confirmation is Confirmation.UNSTEADY)
    if is_persistent:
        end = describe_end(mismatch.reading.witness.size_bytes, record.witness.size_bytes)
        text += messages.seen_in_data(end, describe_fills(outcome.fills))
    return Conclusion(
        record,
        Tally.DAMAGED,
        kind,
        messages.of_newer_content(text) if record.is_candidate else text,
        certainty=certainty,
        blocks=(0,) if record.block_size_bytes is None else outcome.bad_blocks,
        block_size_bytes=record.block_size_bytes or run.settings.block_size_bytes,
        ranges=block_ranges(record, outcome.bad_blocks),
        confirmed_reads=REREADS,
        step=messages.MEND_NEWER_CONTENT if record.is_candidate else None,
        ends=FINDINGS_OF_ARCHIVES,
    )


def read_whole(file: OpenFile, buffers: Buffers, want: Want, fills: FillFinder | None = None) -> Pair:
    """Return the digests of a whole open file; ``fills`` sees its data."""
    hasher = FileHasher(want, file.size_bytes, max(file.size_bytes, 1))
    for segment in file.segments(buffers):
        hasher.chain(segment)
        if fills is not None:
            _show(segment, fills)
    digests = hasher.digests()
    return Pair(digests.xxh3_128, digests.md5)


def _read_blocks(
    file: OpenFile, buffers: Buffers, record: FileRecord, first: int, count: int, fills: FillFinder
) -> dict[int, Pair]:
    """Return the digests of adjacent blocks; a block beyond the end of the file has the digests of no bytes."""
    size = record.block_size_bytes
    assert size is not None
    begin, end = first * size, (first + count) * size
    hasher = FileHasher(Want(block_md5=True, block_xxh3_128=True), record.witness.size_bytes, size, start=begin)
    for segment in file.segments(buffers, begin):
        if segment.offset >= end:
            break
        length = min(segment.length, end - segment.offset)
        trimmed = Segment(segment.offset, length, None if segment.data is None else segment.data[:length])
        hasher.cut_blocks(trimmed)
        _show(trimmed, fills)
    hasher.digests()
    _, blocks = hasher.take_blocks()
    assert blocks is not None
    pairs = {}
    for index in range(count):
        at = slice(index * 16, index * 16 + 16)
        pairs[first + index] = Pair(blocks.xxh3_128[at], blocks.md5[at])
    return pairs


def _show(segment: Segment, fills: FillFinder) -> None:
    if segment.data is not None:  # no hole is skipped here
        fills.add(segment.offset, segment.data)
