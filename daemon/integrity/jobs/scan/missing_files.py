"""
Keep the recorded files that a walk met, and account for the others: moved, gone, or only out of sight (R5, R8).

A file is gone only if its folder was listed completely, nothing excludes it, no mount covers it, and lstat finds no
regular file under its name, or one that the listings show under another spelling. What lstat finds and no listing shows
is there all the same: the listing is at fault. All others are counted with the reason, and their records stay.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from integrity.catalog import baselines, files, findings, roots, versions
from integrity.catalog.rows import FileRecord, is_current
from integrity.files.spelling import Spelling
from integrity.jobs import messages
from integrity.jobs.batching import IdSet, iterate_files
from integrity.jobs.presence import find_hidden_mounts, is_gone, is_on_other_mount, is_respelled, may_be_there
from integrity.jobs.report import NoteKind
from integrity.jobs.targets import find_enclosing, is_inside
from integrity.model import FileId, FindingId, FindingKind, FolderId, SkipReason, Tally

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection
    from integrity.files.listing import Skip
    from integrity.jobs.context import RootRun
    from integrity.jobs.judge.account import Account
    from integrity.jobs.judge.inodes import ReplacedInodes
    from integrity.jobs.scan.new_files import NewFiles

_BATCH = 500
_SUCCESSORS_AT_ONCE = 5000
"""Looked up together, because the query reads all files; about the limit of one SQLite statement."""


class MetFiles:
    """
    The recorded files that a walk has met.

    Whole folders are only counted. Their file ids are loaded at the first query for a single file, which most runs
    never do.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._ids = IdSet()
        self._folders = array("q")
        self._in_folders = 0

    def add_folder(self, folder_id: FolderId, count: int) -> None:
        """Add all files of a folder; none of them may have been added before. ``count`` is their number."""
        self._folders.append(folder_id)
        self._in_folders += count

    def update(self, file_ids: Iterable[FileId]) -> None:
        """Add files that lie in no added folder."""
        self._ids.update(file_ids)

    def add(self, file_id: FileId) -> None:
        """Add a file of any folder."""
        self._look_up()
        self._ids.add(file_id)

    def discard(self, file_id: FileId) -> None:
        """Remove a file if present."""
        self._look_up()
        self._ids.discard(file_id)

    def __contains__(self, file_id: FileId) -> bool:
        self._look_up()
        return file_id in self._ids

    def __len__(self) -> int:
        return len(self._ids) + self._in_folders

    def _look_up(self) -> None:
        if not self._folders:
            return
        with self._catalog.read() as connection:
            self._ids.update(roots.find_ids_in(connection, map(FolderId, self._folders)))
        self._folders, self._in_folders = array("q"), 0


class MissingFiles:
    """
    Account for the recorded files that a walk did not meet.

    Args:
        new_files: the new files of the run, and the recorded files that were met.
        replaced: names under which a different inode was found.

    Attributes:
        unlisted: folders and names that could not be read: absence proves nothing there.
    """

    def __init__(self, run: RootRun, account: Account, new_files: NewFiles, replaced: ReplacedInodes) -> None:
        self._run = run
        self._account = account
        self._new_files = new_files
        self._seen = new_files.seen
        self._replaced = replaced
        self._damaged: list[FileRecord] = []
        self._successors: list[tuple[FileRecord, FileId]] = []
        self.unlisted: set[bytes] = set()
        self._covered: set[bytes] = set()
        self._unshown: list[bytes] = []

    def add_skipped(self, skip: Skip) -> None:
        """Record what was skipped on purpose: it may contain recorded files."""
        if skip.reason in (SkipReason.MOUNT, SkipReason.CATALOG):
            self._covered.add(skip.path)

    def account(self) -> int:
        """Account for every recorded file of the run's part of the root that was not met; return their number."""
        unmet = self._account_unmet()
        self._run.looked_at = len(self._seen) - self._new_files.new_count + unmet
        self._resolve_ended()
        return unmet

    def count_unreached(self) -> None:
        """Count the recorded files that a stopped run did not reach as not due (R8)."""
        run = self._run
        known = sum(1 for _ in iterate_files(run)) if not run.is_whole else self._count_rows()
        run.counts.add(Tally.NOT_DUE, known - (run.counts.known - run.unrecorded))

    def _account_unmet(self) -> int:
        if self._run.is_whole and len(self._seen) == self._count_rows():
            return 0
        # A walk that began below a mount did not meet it: it finds nothing there, or another tree.
        self._covered.update(find_hidden_mounts(self._run))
        unmet, spelling = 0, Spelling(self._run.root_fd)
        gone: array[int] = array("q")
        for file_id, path in iterate_files(self._run):
            if file_id in self._seen:
                continue
            unmet += 1
            tally = self._explain_unmet(path, spelling)
            if tally is None:
                self._unshown.append(path)
            elif tally is Tally.MISSING:
                gone.append(file_id)
            else:
                self._account.count(file_id, tally)
                if tally is Tally.SKIPPED and self._was_skipped_itself(path):
                    self._run.uncount_unrecorded(Tally.SKIPPED)
        for start in range(0, len(gone), _BATCH):
            self._account_page([FileId(one) for one in gone[start : start + _BATCH]])
            if len(self._successors) >= _SUCCESSORS_AT_ONCE:
                self._hold_successors()
        self._hold_successors()
        return unmet

    def _hold_successors(self) -> None:
        pairs, self._successors = self._successors, []
        claims = Counter(new for _, new in pairs)
        clear = [(record, new) for record, new in pairs if claims[new] == 1]
        if clear:
            self._new_files.hold_successors(clear)

    def _count_rows(self) -> int:
        with self._run.catalog.read() as connection:
            return roots.count_files(connection, self._run.root.id)

    def _resolve_ended(self) -> None:
        """
        Resolve findings of earlier runs that this complete run did not repeat.

        These are unreadable folders and unrecorded files. Removals that are held are discarded if the file is back.
        """
        run = self._run
        with run.catalog.read() as connection:
            unrepeated = [
                one
                for part in run.parts
                for one in findings.find_unconfirmed(connection, run.root.id, part, FindingKind.UNREADABLE, run.run_id)
            ]
            held = versions.find_held_removals(connection, run.root.id)
        over = [one for one in unrepeated if find_enclosing(one.path or b"", self.unlisted) is None]
        back = [file_id for file_id in held if file_id in self._seen]

        def resolve(connection: Connection, ids: Sequence[FindingId]) -> None:
            resolution = "it can be read again, or is gone"
            run.note_resolved(findings.resolve_ids(connection, ids, resolution=resolution, now=run.now()))

        run.write_in_pages([one.id for one in over], resolve)
        run.write_in_pages(back, versions.discard)

    def take_unshown(self) -> list[bytes]:
        """
        Return and clear the files that are there although the walk did not meet them: they are to be compared.

        Warns of folders whose listings still do not show them.
        """
        paths, self._unshown = self._unshown, []
        spelling = Spelling(self._run.root_fd)
        unlisted: Counter[bytes] = Counter()
        for path in paths:
            try:
                is_listed = spelling.is_exact(path)
            except OSError:
                is_listed = False
            if not is_listed:
                unlisted[path.rpartition(b"/")[0]] += 1
        for folder, count in unlisted.items():
            self._run.note(NoteKind.WARNING, folder, messages.unshown(count))
        return paths

    def _explain_unmet(self, path: bytes, spelling: Spelling) -> Tally | None:
        """Return why a file was not met; None if it is there and the walk should have met it."""
        root_fd, stay_on_mount = self._run.root_fd, not self._run.settings.cross_mounts
        if find_enclosing(path, self.unlisted) is not None:
            return Tally.UNREADABLE
        if find_enclosing(path, self._covered) is not None or self._run.excludes.covers(path):
            return Tally.SKIPPED
        try:
            if is_gone(root_fd, path, stay_on_mount=stay_on_mount) or is_respelled(root_fd, path, spelling):
                return Tally.MISSING
            return Tally.SKIPPED if stay_on_mount and is_on_other_mount(root_fd, path) else None
        except OSError:
            return Tally.UNREADABLE

    def _was_skipped_itself(self, path: bytes) -> bool:
        """Return whether the walk met a recorded file that is excluded now and counted it as skipped."""
        folder, _, name = path.rpartition(b"/")
        run = self._run
        return (
            run.excludes.matches(path, name, False)
            and any(is_inside(folder, part) for part in run.parts)
            and not (folder and run.excludes.covers(folder, is_folder=True))
            and find_enclosing(path, self._covered) is None
            and may_be_there(run.root_fd, path)
        )

    def _account_page(self, ids: list[FileId]) -> None:
        run = self._run
        with run.catalog.read() as connection:
            records = files.find_files(connection, ids)
        # A file that was renamed over another one is not gone: new files with its content or name are copies.
        gone = [one for one in records if self._replaced.find(one.path, one.witness) is None]
        twins, successors = self._new_files.match(gone)
        self._successors += successors

        def write(connection: Connection, page: Sequence[FileRecord]) -> None:
            for record in page:
                self._account_missing(connection, record, twins.get(record.id))

        run.write_in_pages(records, write)

    def _account_missing(self, connection: Connection, record: FileRecord, twin_id: FileId | None) -> None:
        if not is_current(connection, record):  # a person decided meanwhile: the next run handles it
            if files.find_files(connection, [record.id]):  # a deleted record is not counted
                self._account.count(record.id, Tally.SKIPPED)
            return
        twin = None if twin_id is None else next(iter(files.find_files(connection, [twin_id])), None)
        if twin is not None and twin.digests.md5 == record.digests.md5:
            baselines.merge_moved(connection, self._run.root, record, twin, self._run.now())
            self._new_files.moved.report_moved(connection, record, twin.path)
            versions.discard(connection, [record.id])  # a removal staged by an earlier run
        elif not self._account.count_missing(connection, record):
            if record.is_frozen:
                self._damaged.append(record)
            else:
                versions.stage_removal(connection, record, self._run.run_id)

    def remove_damaged(self) -> None:
        """
        Stage the removal of missing files with an open finding, after everything was read.

        Until then their damage must stay known: it may turn up in a file that they were copied over.
        """
        damaged, self._damaged = self._damaged, []
        for record in damaged:
            with self._run.writing() as connection:
                if is_current(connection, record):
                    versions.stage_removal(connection, record, self._run.run_id)
