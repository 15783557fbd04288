"""
Build the good file beside the damaged one, under a name of its own, and verify it before it is used.

Good blocks of the damaged file are shared with the new one where the file system can (reflink), else copied; each
copied block is verified on the way. The rest comes from the copies, verified before it is written. Then the whole new
file is read back from the disk and compared with every recorded digest.

On any failure the damaged file is untouched, and the new one is removed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity import program
from integrity.errors import ReadError, ReadInterrupted, RepairFailed, Vanished, show_path
from integrity.files.open_beneath import open_beneath, open_noatime
from integrity.files.read import Reader
from integrity.files.replace_file import Attributes, clone, is_locked, read_attributes, set_storage, write_attributes
from integrity.files.span import ReadMode
from integrity.files.stamps import witness_of
from integrity.hashing.digests import FileHasher, is_very_sparse, want_to_record, without_chain
from integrity.jobs.repair.inspect import describe_move, read_blocks
from integrity.model import Reading, Witness
from integrity.verdict import Shift, compare_witness

if TYPE_CHECKING:
    from integrity.catalog.root_meta import JournalPlace
    from integrity.files.buffers import Buffers
    from integrity.jobs.context import RootRun
    from integrity.jobs.repair.good_blocks import BlockSource
    from integrity.jobs.repair.inspect import Expected, Tick
    from integrity.jobs.repair.plan import FilePlan

_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOT_FOR_OTHERS = 0o600


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A complete new file. ``reading`` is its verification."""

    reading: Reading
    is_clone: bool


class FileBuilder:
    """
    Build new files in one root.

    Args:
        tick: called with the number of bytes processed; returns whether to continue.
    """

    def __init__(self, run: RootRun, buffers: Buffers, tick: Tick) -> None:
        self._run = run
        self._buffers = buffers
        self._tick = tick
        self._reader: Reader = run.reader(ReadMode.DISK)

    def make(self, plan: FilePlan, place: JournalPlace, folder_fd: int, source: BlockSource) -> BuiltFile:
        """
        Build the new file under ``place.made``, in the open folder of the place.

        Raises:
            RepairFailed: the file could not be built or is not good; nothing of it remains.
            ReadInterrupted: stopped; nothing of it remains.
        """
        with self._created(folder_fd, place) as fd:
            is_clone = self._fill(fd, plan, source)
            with explain_errors(place.path, "written"):
                self._set_metadata(fd, folder_fd, plan)
                os.fsync(fd)
                os.fsync(folder_fd)
            reading = self.verify(place.beside(place.made), plan)
            if witness_of(os.fstat(fd)).stamps != reading.witness.stamps:
                raise RepairFailed(f"{show_path(place.path)}: the new file was tampered with; nothing was changed")
            return BuiltFile(reading, is_clone)

    def verify(self, path: bytes, plan: FilePlan) -> Reading:
        """
        Read a file from the disk and check that it is what was recorded.

        Raises:
            RepairFailed: the content differs or can't be read.
        """
        expected = plan.expected
        assert expected is not None
        try:
            reading = self._read(path, expected)
        except ReadInterrupted:
            raise
        except ReadError as error:
            raise RepairFailed(f"{show_path(path)}: can't be verified: {error}") from error
        if not expected.holds(reading):
            raise RepairFailed(
                f"{show_path(path)}: the data on the disk differs from what was written; test the memory and"
                " the disk, then try again"
            )
        return reading

    @contextmanager
    def _created(self, folder_fd: int, place: JournalPlace) -> Iterator[int]:
        """Create the new file; remove it if the body fails."""
        with explain_errors(place.path, "begun"):
            fd = os.open(place.made, _NEW_FILE, _NOT_FOR_OTHERS, dir_fd=folder_fd)
        try:
            yield fd
        except BaseException:
            with suppress(OSError):  # the next run removes it
                os.unlink(place.made, dir_fd=folder_fd)
            raise
        finally:
            os.close(fd)

    def _fill(self, fd: int, plan: FilePlan, source: BlockSource) -> bool:
        expected = plan.expected
        assert expected is not None
        is_clone = False
        with explain_errors(plan.path, "written"):
            if plan.inspection is not None:
                is_clone = self._begin(fd, plan)
            lacking = set(plan.damaged)
            if is_clone and expected.count - 1 in lacking:
                # Writing or cutting a partial last page reads that page first, which a bad disk may refuse.
                os.ftruncate(fd, (expected.count - 1) * expected.block_size_bytes)
            os.ftruncate(fd, expected.size_bytes)
        if plan.inspection is not None and not is_clone:
            lacking = self._copy_good(fd, plan, expected)
        for index in sorted(lacking):
            data = plan.held.get(index)
            if data is None:
                fetched = source.fetch(index, expected)
                if fetched is None:
                    raise RepairFailed(
                        f"{show_path(plan.path)}: block {index} was intact in a copy and no longer is; nothing was"
                        " changed. Compare the copies, then try again"
                    )
                _, data = fetched
            with explain_errors(plan.path, "written"):
                # A new file is all zeros already; a clone contains the damaged bytes.
                if is_clone or data.count(0) != len(data):
                    _write(fd, data, index * expected.block_size_bytes)
            if not self._tick(len(data)):
                raise ReadInterrupted("interrupted")
        return is_clone

    def _begin(self, fd: int, plan: FilePlan) -> bool:
        """Share the blocks of the damaged file with the new one; return whether the file system could."""
        with self._old(plan) as old_fd:
            if is_locked(old_fd):
                raise RepairFailed(
                    f"{show_path(plan.path)}: is immutable or append-only; clear that first: chattr -i -a FILE"
                )
            set_storage(fd, read_attributes(old_fd))
            return clone(fd, old_fd)

    @contextmanager
    def _old(self, plan: FilePlan) -> Iterator[int]:
        """Open the damaged file and check that it is the inspected one; as O_PATH if the disk refuses reading."""
        assert plan.inspection is not None
        try:
            fd = open_noatime(self._run.root_fd, plan.path, os.O_RDONLY)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            fd = open_beneath(self._run.root_fd, plan.path, os.O_PATH)
        try:
            require_same(plan, witness_of(os.fstat(fd)))
            yield fd
        finally:
            os.close(fd)

    def _copy_good(self, fd: int, plan: FilePlan, expected: Expected) -> set[int]:
        """Copy the good blocks of the damaged file; return the numbers of the others."""
        lacking = set(range(expected.count))
        try:
            with self._reader.open(plan.path) as old:
                require_same(plan, witness_of(old.stat))
                for block in read_blocks(old, self._buffers, expected, self._tick):
                    if not expected.matches_block(block.number, block.data):
                        continue
                    lacking.discard(block.number)
                    if block.data is not None:
                        with explain_errors(plan.path, "written"):
                            _write(fd, block.data, block.number * expected.block_size_bytes)
        except (ReadInterrupted, Vanished):
            raise
        except ReadError:
            pass  # unread blocks count as lacking and are fetched from the copies
        return lacking

    def _set_metadata(self, fd: int, folder_fd: int, plan: FilePlan) -> None:
        """Set the new file's owner, mode, times and attributes: the old file's, or for a lost file the planned ones."""
        assert plan.record is not None
        recorded = plan.record.witness
        if plan.inspection is None:
            folder = os.fstat(folder_fd)
            mode = folder.st_mode & 0o666 if plan.mode is None else plan.mode
            owner = (folder.st_uid, folder.st_gid) if plan.owner is None else plan.owner
            os.fchmod(fd, mode)
            if owner != (os.fstat(fd).st_uid, os.fstat(fd).st_gid):
                os.fchown(fd, *owner)
            os.utime(fd, ns=(recorded.mtime_ns, recorded.mtime_ns))
            return
        with self._old(plan) as old_fd:
            attributes = read_attributes(old_fd)
        write_attributes(fd, self._with_recorded_time(attributes, plan.inspection.witness, recorded))

    def _with_recorded_time(self, attributes: Attributes, seen: Witness, recorded: Witness) -> Attributes:
        """Replace the time of modification by the recorded one if it was changed since."""
        if compare_witness(self._run.capability, recorded, seen).mtime is Shift.EQUAL:
            return attributes
        return attributes._replace(mtime_ns=recorded.mtime_ns)

    def _read(self, path: bytes, expected: Expected) -> Reading:
        with self._reader.open(path) as file:
            want = want_to_record(blake3=expected.digests.blake3 is not None)
            if is_very_sparse(file.size_bytes, file.size_bytes - file.stat.st_blocks * 512):
                want = without_chain(want)
            hasher = FileHasher(want, file.size_bytes, expected.block_size_bytes)
            for segment in file.segments(self._buffers):
                hasher.feed(segment)
                if not self._tick(segment.length):
                    raise ReadInterrupted("interrupted")
            witness = file.finish()
            digests = hasher.digests()
            _, blocks = hasher.take_blocks()
            return Reading(witness, digests, blocks, file.how, file.bytes_read)


def require_same(plan: FilePlan, witness: Witness) -> None:
    """
    Check that a file is the one that was planned for.

    Raises:
        RepairFailed: its witness changed.
    """
    assert plan.inspection is not None
    judged = plan.inspection.witness
    if witness != judged:
        raise RepairFailed(
            f"{show_path(plan.path)}: {describe_move(judged, witness)} while it was being repaired: it was"
            f" left as it is. Stop the program that writes to it, then check it again: {program.command('scrub FILE')}"
        )


def _write(fd: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        count = os.pwrite(fd, view, offset)
        view, offset = view[count:], offset + count


_REMEDIES = {
    errno.ENOSPC: "the disk is full: free as much space as the file needs, then try again",
    errno.EDQUOT: "the quota is used up: free as much space as the file needs, then try again",
    errno.EROFS: "the file system is read-only: mount it for writing (its disk may have failed: dmesg), then try again",
    errno.EACCES: "run as a user that may write there",
    errno.EPERM: "run as the file's owner or as root, and check whether it is immutable (lsattr)",
    errno.EIO: "the disk can't be written: check its health (dmesg, smartctl), then try again",
}


@contextmanager
def explain_errors(path: bytes, what: str) -> Iterator[None]:
    """Turn an OSError into a RepairFailed with its remedy."""
    try:
        yield
    except OSError as error:
        code = error.errno or errno.EIO
        part = f" ({error.filename})" if isinstance(error.filename, str) else ""
        reason = error.strerror or os.strerror(code)
        remedy = _REMEDIES.get(code, "fix the cause that the system reports, then try again")
        raise RepairFailed(
            f"{show_path(path)}: the new file can't be {what}{part}: {reason}; nothing was changed: {remedy}"
        ) from error
