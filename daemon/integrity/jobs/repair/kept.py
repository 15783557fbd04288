"""
List the damaged files that repairs left, and remove them on request.

I1  Only a file that a repair left is removed, and only if it is still the one that it left.
I2  Before that, the repaired file is read from the disk, and all of it is as recorded. If that was recorded on
    somebody's word, a comparison must have found a copy with it since.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from stat import S_ISREG
from typing import TYPE_CHECKING

from integrity.arbitration import CopyVote
from integrity.catalog import files
from integrity.catalog.copies import states_of_file
from integrity.catalog.root_meta import KEPT_FILES, KeptFile, find_kept
from integrity.catalog.roots import RootRecord, find_roots
from integrity.catalog.runs import Action, record_action
from integrity.errors import ConfigError, ReadError, ReadInterrupted, RootSuspended, show_path
from integrity.files.open_beneath import open_beneath, stat_beneath
from integrity.files.span import ReadMode
from integrity.jobs.open_root import open_guarded
from integrity.jobs.repair.inspect import inspect_file, load_expected
from integrity.model import ActionVerb, BaselineReason, Tally
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.catalog.rows import FileRecord
    from integrity.files.buffers import Buffers
    from integrity.jobs.context import RootRun


class KeptState(StrEnum):
    """What became of a file that a repair left."""

    KEPT = "kept"
    REMOVED = "removed"
    GONE = "gone"  # somebody else removed it
    CHANGED = "changed"  # written to since, or something else has its name: it is left alone
    NOT_PROVEN = "not_proven"  # the repaired file could not be verified: it is left alone
    UNKNOWN = "unknown"  # its root or its folder can't be opened


@dataclass(frozen=True, slots=True)
class KeptReport:
    """
    A file that a repair left, and its state.

    Args:
        root: the root that it lies in.
        reason: why it was not removed, or can't be looked at.
    """

    root: RootRecord
    kept: KeptFile
    state: KeptState
    reason: str = ""

    @property
    def path(self) -> bytes:
        """Return its absolute path."""
        return absolute(self.root.path, self.kept.path)


def list_kept(catalog: Catalog, paths: Sequence[bytes]) -> list[KeptReport]:
    """
    Return the files that repairs left.

    Args:
        paths: absolute; only the file itself, the repaired file, or what lies in the folder. Empty: all.

    Raises:
        ConfigError: no repair left anything at one of the paths.
    """
    with catalog.read() as connection:
        found = [(root, kept) for root in find_roots(connection) for kept in find_kept(connection, root)]
    for path in paths:
        if not any(_is_meant(root, kept, path) for root, kept in found):
            raise ConfigError(f"{show_path(path)}: no repair left a damaged file there")
    chosen = [(root, kept) for root, kept in found if not paths or any(_is_meant(root, kept, one) for one in paths)]
    return [report for root in dict.fromkeys(root for root, _ in chosen) for report in _look_at(root, chosen)]


def _is_meant(root: RootRecord, kept: KeptFile, path: bytes) -> bool:
    own, repaired = absolute(root.path, kept.path), absolute(root.path, kept.place.path)
    return path in (own, repaired) or own.startswith(path.rstrip(b"/") + b"/")


def _look_at(root: RootRecord, chosen: Sequence[tuple[RootRecord, KeptFile]]) -> Iterator[KeptReport]:
    own = [kept for one, kept in chosen if one is root]
    try:
        root_fd = open_guarded(root).fd
    except RootSuspended as error:
        yield from (KeptReport(root, kept, KeptState.UNKNOWN, str(error)) for kept in own)
        return
    try:
        for kept in own:
            yield KeptReport(root, kept, *_find_state(root_fd, kept))
    finally:
        os.close(root_fd)


def _find_state(root_fd: int, kept: KeptFile) -> tuple[KeptState, str]:
    try:
        stat = stat_beneath(root_fd, kept.path)
    except (FileNotFoundError, NotADirectoryError):
        return KeptState.GONE, "somebody removed or renamed it"
    except OSError as error:
        return KeptState.UNKNOWN, f"can't be looked at: {error.strerror}"
    return (KeptState.KEPT, "") if _is_same(stat, kept) else (KeptState.CHANGED, _CHANGED)


_CHANGED = "it is not the file that the repair left, or was written to since; look at it, and remove it yourself"


def _is_same(stat: os.stat_result, kept: KeptFile) -> bool:
    return S_ISREG(stat.st_mode) and (stat.st_size, stat.st_mtime_ns, stat.st_ino) == kept.stamps


class KeptRemover:
    """Remove files that repairs left in one root, under its lock."""

    def __init__(self, run: RootRun, buffers: Buffers) -> None:
        self._run = run
        self._buffers = buffers
        self._reader = run.reader(ReadMode.DISK)

    def remove(self, kept: KeptFile) -> KeptReport:
        """
        Remove one (I1, I2); the row goes with the file.

        Raises:
            ReadInterrupted: the job was asked to stop; the file stays.
        """
        run = self._run
        if run.context.stop.is_set():
            raise ReadInterrupted(show_path(kept.path))
        state, reason = _find_state(run.root_fd, kept)
        if state is KeptState.KEPT:
            reason = self._find_doubt(kept)
            state = KeptState.NOT_PROVEN if reason else KeptState.REMOVED
        run.counts.add(Tally.VERIFIED if state is KeptState.REMOVED else Tally.NOT_DUE)
        if state is KeptState.REMOVED:
            state, reason = self._unlink(kept)
        if state in (KeptState.REMOVED, KeptState.GONE):
            self._record(kept, state)
        return KeptReport(run.root, kept, state, reason)

    def _find_doubt(self, kept: KeptFile) -> str:
        """Return why the repaired file is not proven to be intact; empty if it is."""
        run, path = self._run, kept.place.path
        with run.catalog.read() as connection:
            record = files.find_file(connection, run.root.id, path)
            expected = None if record is None else load_expected(connection, record)
        if record is None or expected is None:
            return "the record of the repaired file is gone, so nothing proves that it is intact"
        try:
            inspection = inspect_file(self._reader, path, run.root_fd, expected, self._buffers, self._tick)
        except ReadInterrupted:
            raise
        except ReadError as error:
            return f"the repaired file can't be verified: {error}"
        if not inspection.is_whole(expected):
            return "the repaired file is not as recorded; see which is better"
        return (
            "" if self._is_confirmed(record) else "no comparison has found the new file and a copy equal since; compare"
        )

    def _is_confirmed(self, record: FileRecord) -> bool:
        """Return whether more than somebody's word says that the record is right."""
        with self._run.catalog.read() as connection:
            said = states_of_file(connection, record.id)
        is_equal = any(
            one.version == record.version and one.vote is CopyVote.SAME and one.compared_at >= record.recorded_at
            for _, one in said
        )
        return record.reason is not BaselineReason.ACCEPTED or is_equal

    def _unlink(self, kept: KeptFile) -> tuple[KeptState, str]:
        try:
            folder_fd = open_beneath(self._run.root_fd, kept.place.folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            return KeptState.UNKNOWN, f"its folder can't be opened: {error.strerror}"
        try:
            # Looked at again: reading the repaired file may have taken minutes.
            if not _is_same(os.stat(kept.place.kept, dir_fd=folder_fd, follow_symlinks=False), kept):
                return KeptState.CHANGED, _CHANGED
            os.unlink(kept.place.kept, dir_fd=folder_fd)
            os.fsync(folder_fd)
        except OSError as error:
            return KeptState.UNKNOWN, f"can't be removed: {error.strerror}"
        finally:
            os.close(folder_fd)
        return KeptState.REMOVED, ""

    def _record(self, kept: KeptFile, state: KeptState) -> None:
        run = self._run
        with run.writing() as connection:
            KEPT_FILES.drop(connection, run.root.id, kept.id)
            if state is KeptState.REMOVED:
                outcome = f"removed the damaged file kept as {show_path(kept.place.kept)}"
                done = Action(run.context.find_actor(), ActionVerb.REPAIR, outcome, run.root.path, kept.place.path)
                record_action(connection, done, run.now())

    def _tick(self, _: int) -> bool:
        return not self._run.context.stop.is_set()
