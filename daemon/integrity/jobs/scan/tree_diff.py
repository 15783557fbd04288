"""
Compare what a walk finds in a root with its records, and decide what must be read.

A folder whose fingerprint equals the recorded one costs one comparison; no row of its files is read. All others are
compared file by file.

A file with only ctime or inode changed becomes a suspect, which scrubs read early (R2). Unknown names go to
``NewFiles``, names the walk could not reach to ``MissingFiles``. Only folders and stats are read, and only fingerprints
and findings about folders are written.

I1  Each name that is met is counted here, or passed to exactly one counter (R8).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING

from integrity.catalog import files, roots, versions
from integrity.catalog.files import KnownFile
from integrity.catalog.own_files import SQLITE_SUFFIXES
from integrity.catalog.roots import find_fingerprints, set_fingerprints
from integrity.catalog.rows import Sighting
from integrity.files.listing import FolderListing, Seen, Skip
from integrity.files.open_beneath import stat_beneath
from integrity.files.stamps import witness_of
from integrity.files.walk import walk as walk_tree
from integrity.hashing.digests import want_to_record
from integrity.hashing.tasks import Task, Work
from integrity.jobs import messages
from integrity.jobs.batching import IdSet
from integrity.jobs.judge.account import Account
from integrity.jobs.judge.content_diff import KEEPS_BEGINNING, prefix_probe
from integrity.jobs.judge.inodes import TreePlace, WalkedName
from integrity.jobs.options import ScanOptions
from integrity.jobs.report import NoteKind
from integrity.jobs.scan.missing_files import MissingFiles
from integrity.jobs.scan.new_files import NewFiles
from integrity.jobs.scan.respelled_files import RespelledFiles
from integrity.model import FileId, FindingKind, FolderId, SkipReason, Tally, Witness
from integrity.verdict import compare_witness

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


_FOLDERS_AT_ONCE = 256
_FILES_AT_ONCE = 4096
"""A larger group would leave the processor's cache before it is compared."""


def gather(listings: Iterable[FolderListing]) -> Iterator[list[FolderListing]]:
    """Group listings into batches large enough for one query."""
    group: list[FolderListing] = []
    count = 0
    for listing in listings:
        group.append(listing)
        count += len(listing.files)
        if count >= _FILES_AT_ONCE or len(group) == _FOLDERS_AT_ONCE:
            yield group
            group, count = [], 0
    if group:
        yield group


def is_as_recorded(listing: FolderListing, known: Mapping[bytes, KnownFile]) -> bool:
    """Return whether a folder has exactly the recorded files, with equal stats, none of them racy or frozen."""
    return len(known) == len(listing.files) and all(
        old is not None and old.stamps == seen.stamps and not (old.is_racy or old.is_frozen)
        for seen in listing.files
        for old in (known.get(seen.name),)
    )


_SEEK_BYTES = 1 << 19
"""What a disk reads in the time of one seek: 5 ms at 100 MB/s."""


class TreeDiff:
    """
    Compare one root, or a part of it, with its records.

    Args:
        account: counts files that need no reading.
        new_files: handles unknown names, and has the recorded files that were met.
        missing_files: handles names that could not be read or were skipped on purpose.
        counts_known_files: no scrub follows that reads and counts them.
    """

    def __init__(
        self,
        run: RootRun,
        options: ScanOptions,
        account: Account,
        new_files: NewFiles,
        missing_files: MissingFiles,
        *,
        counts_known_files: bool,
    ) -> None:
        self._run = run
        self._is_full = options.full
        self._touched_bytes = options.touched_bytes  # what is left of it
        self._counts_known_files = counts_known_files
        self._account = account
        self._new_files = new_files
        self._missing_files = missing_files
        self._seen = new_files.seen
        self._want = want_to_record(blake3="blake3" in run.settings.digests)
        self._respelled_files = RespelledFiles(run)
        self._folders_with_missing = {path.rpartition(b"/")[0] for path in account.missing_paths}
        self.suspects: dict[FileId, Sighting | None] = {}
        self.put_back: list[TreePlace] = []
        self.changed = IdSet()

    def walk(self) -> Iterator[list[Work]]:
        """Compare the tree with its records; yield what must be read, group by group."""
        for group in gather(self._listings()):
            if self._run.context.stop.is_set():
                return
            for listing in group:
                self._record_skips(listing)
            listings = self._count_unchanged(group)
            with self._run.catalog.read() as connection:
                known = self._find_recorded(connection, listings)
                pairs = zip(listings, known, strict=True)
                respelled = [one for pair in pairs for one in self._respelled_files.find(connection, *pair)]
            if respelled:
                self._respelled_files.follow(respelled)
            with self._run.catalog.read() as connection:
                if respelled:
                    known = self._find_recorded(connection, listings)
                tasks = self._compare_all(connection, listings, known)
            self._new_files.found.store()
            yield tasks
            self._run.progress("scan", len(self._seen), self._run.counts.bytes_read, files=None, size=None)

    def _listings(self) -> Iterator[FolderListing]:
        for part in self._run.parts:
            yield from self._list_part(part) if part else self._walk(b"")

    def _list_part(self, part: bytes) -> Iterator[FolderListing]:
        """List a folder and its subfolders, or one file, unless it is gone or excluded."""
        run = self._run
        try:
            stat = stat_beneath(run.root_fd, part, stay_on_mount=not run.settings.cross_mounts)
        except OSError as error:
            if error.errno == errno.EXDEV and not run.hints:
                self._skip_mount(part)
            return  # gone or unreadable: MissingFiles finds out which
        is_folder = S_ISDIR(stat.st_mode)
        if run.hints and run.excludes.covers(part, is_folder=is_folder):
            return  # excludes apply to events, not to paths named by a person
        shown = self._respelled_files.spell(part)
        if run.hints and shown != part:
            return  # the old name of a renamed one: there is an event for the new one, too
        part = shown
        if S_ISREG(stat.st_mode):
            place = TreePlace.of(part)
            if (stat.st_dev, stat.st_ino) not in _catalog_files(run.catalog.path):
                yield FolderListing(place.folder, [_as_seen(place.name, stat)], False, True, [], None)
        elif is_folder:
            yield from self._walk(part)

    def _skip_mount(self, part: bytes) -> None:
        """Warn that a path named by a person lies on another file system, which is not covered."""
        run = self._run
        self._missing_files.add_skipped(Skip(part, SkipReason.MOUNT, True))
        if not self._is_known(part):
            run.count_unrecorded(Tally.SKIPPED)
        run.is_incomplete = True
        run.note(NoteKind.WARNING, part, messages.OTHER_MOUNT)

    def _walk(self, start: bytes) -> Iterator[FolderListing]:
        run, own = self._run, _catalog_files(self._run.catalog.path)
        cross_mounts = run.settings.cross_mounts
        return walk_tree(run.root_fd, start, excludes=run.excludes, cross_mounts=cross_mounts, leave_out=own)

    def _record_skips(self, listing: FolderListing) -> None:
        for skip in listing.skips:
            self._missing_files.add_skipped(skip)
            self._run.skip(skip)
        error = listing.error
        if error is not None:
            self._missing_files.unlisted.add(error.path)
            self._run.is_incomplete = True
            if error.path != listing.folder and not self._is_known(error.path):
                self._run.count_unrecorded(Tally.UNREADABLE)
            with self._run.writing() as connection:
                self._run.open_finding(connection, FindingKind.UNREADABLE, error.message, path=error.path)

    def _count_unchanged(self, listings: list[FolderListing]) -> list[FolderListing]:
        """Count the files of folders whose fingerprint is the recorded one; return the other folders."""
        if self._is_full:
            return listings
        run = self._run
        paths = [one.folder for one in listings if one.fingerprint is not None]
        with run.catalog.read() as connection:
            recorded = {one.folder: one for one in find_fingerprints(connection, run.root.id, paths)}
        other: list[FolderListing] = []
        without: list[tuple[FolderId, FolderListing]] = []  # folders that are recorded without a fingerprint
        unchanged = 0
        for listing in listings:
            found = recorded.get(listing.folder)
            if listing.folder in self._folders_with_missing or (found is None and listing.fingerprint is None):
                other.append(listing)
            elif found is None:
                other += [listing] if listing.files else []  # otherwise an empty folder without records
            elif found.fingerprint is None:
                without.append((found.id, listing))
            elif found.fingerprint != listing.fingerprint:
                other.append(listing)
            else:
                self._seen.add_folder(found.id, len(listing.files))
                unchanged += len(listing.files)
        if without:
            changed = self._store_fingerprints(without)
            unchanged += sum(len(listing.files) for _, listing in without) - sum(len(one.files) for one in changed)
            other += changed
        if self._counts_known_files:
            run.counts.not_due += unchanged
        return other

    def _store_fingerprints(self, folders: Sequence[tuple[FolderId, FolderListing]]) -> list[FolderListing]:
        """Store the fingerprints of folders that are as recorded, and return the others."""
        changed: list[FolderListing] = []
        with self._run.writing(is_synced=False) as connection:  # no row can change in between
            for folder_id, listing in folders:
                known = self._find_names(connection, listing.folder, None)
                if listing.fingerprint is None or not is_as_recorded(listing, known):
                    changed.append(listing)
                else:
                    self._seen.update(one.id for one in known.values())
                    set_fingerprints(connection, [(folder_id, listing.fingerprint, len(listing.files))])
        return changed

    def _find_recorded(self, connection: Connection, listings: Sequence[FolderListing]) -> list[dict[bytes, KnownFile]]:
        """Return the recorded files of each folder that is compared file by file, by name."""
        if not self._run.root.file_count:
            return [{} for _ in listings]
        return [
            self._find_names(connection, one.folder, None if one.is_whole else [seen.name for seen in one.files])
            for one in listings
        ]

    def _compare_all(
        self, connection: Connection, listings: Sequence[FolderListing], recorded: Sequence[dict[bytes, KnownFile]]
    ) -> list[Work]:
        """Compare folders file by file."""
        tasks: list[Work] = []
        new: list[tuple[bytes, Sequence[Seen]]] = []
        for listing, known in zip(listings, recorded, strict=True):
            if known:
                tasks += self._compare(connection, listing, known)
                new.append((listing.folder, [seen for seen in listing.files if seen.name not in known]))
            else:
                new.append((listing.folder, listing.files))
        return tasks + self._new_files.add_unknown(connection, new)

    def _compare(self, connection: Connection, listing: FolderListing, known: dict[bytes, KnownFile]) -> list[Task]:
        """Sort the recorded files of one folder into unchanged, suspect, and to be read."""
        missing_paths = self._account.missing_paths
        inodes_are_stable = self._run.capability.has_stable_inodes
        tasks: list[Task] = []
        met: list[FileId] = []
        unchanged = 0
        for seen in listing.files:
            old = known.get(seen.name)
            if old is None:
                continue
            if missing_paths:
                self._resolve_missing(TreePlace(listing.folder, seen.name).path, old)
            if old.stamps == seen.stamps and not self._is_full and not old.is_racy and not old.is_frozen:
                met.append(old.id)
                unchanged += 1
                continue
            is_replaced = inodes_are_stable and old.last_inode != seen.inode
            if is_replaced and self._new_files.found.add_replaced(listing.folder, seen, old.id):
                continue
            met.append(old.id)
            task = self._task_of_known(connection, listing.folder, seen, old)
            if task is not None:
                tasks.append(task)
        self._seen.update(met)
        if self._counts_known_files:
            self._run.counts.not_due += unchanged
        return tasks

    def _task_of_known(self, connection: Connection, folder: bytes, seen: Seen, old: KnownFile) -> Task | None:
        """
        Decide whether to read a recorded file that is racy, has an open finding, or whose witness changed.

        Size and mtime are compared exactly: what moved is read, and what its content means is decided then.
        """
        known, present = Witness(*old.stamps), Witness(*seen.stamps)
        shift = compare_witness(self._run.capability, known, present)
        is_touched = known.size_and_mtime != present.size_and_mtime or bool(old.is_racy)
        fits_budget = not (is_touched or old.is_frozen) and self._fits_budget(seen)
        sighting = Sighting(seen.inode, seen.ctime_ns) if self._run.capability.has_stable_inodes else None
        is_noted = old.is_suspect and (old.seen_inode, old.seen_ctime_ns) == (sighting or (None, None))
        if not (is_touched or fits_budget or shift.is_nothing or is_noted):
            self.suspects[old.id] = sighting
        if not self._counts_known_files:
            if is_touched:
                self.changed.add(old.id)
            return None
        if old.is_frozen:
            if self._has_new_stat(connection, old, seen):
                self.put_back.append(TreePlace(folder, seen.name))
            else:
                self._account.count(old.id, Tally.DAMAGED)
            return None
        if not (is_touched or fits_budget or self._is_full):
            self._account.count(old.id, Tally.NOT_DUE)
            return None
        return self._task(connection, old.id)

    def _fits_budget(self, seen: Seen) -> bool:
        """Deduct a file's size from ``touched_bytes`` if it fits; the smallest file costs as much as a seek."""
        cost = max(seen.size_bytes, _SEEK_BYTES)
        if cost > self._touched_bytes:
            return False
        self._touched_bytes -= cost
        return True

    def _has_new_stat(self, connection: Connection, old: KnownFile, seen: Seen) -> bool:
        """Return whether the stat of a frozen file is neither its baseline's nor its candidate's."""
        if old.stamps == seen.stamps:
            return False
        known = versions.get_candidate(connection, old.id)
        return known is None or known.witness is None or known.witness.stamps != seen.stamps

    def _resolve_missing(self, path: bytes, old: KnownFile) -> None:
        """Resolve the finding, if any, about a missing file that was met again; its content is judged as usual."""
        if path in self._account.missing_paths:
            with self._run.writing() as connection:
                self._run.resolve_missing(connection, old.id, path)
            self._account.missing_paths.discard(path)

    def _is_known(self, path: bytes) -> bool:
        """Return whether ``MissingFiles`` will count an unreadable name: it is recorded, or something below it."""
        root_id = self._run.root.id
        with self._run.catalog.read() as connection:
            is_folder = roots.get_folder_id(connection, root_id, path) is not None
            return is_folder or files.find_file(connection, root_id, path) is not None

    def _find_names(self, connection: Connection, folder: bytes, names: list[bytes] | None) -> dict[bytes, KnownFile]:
        return files.find_known(connection, self._run.root.id, folder, names)

    def compare_found(self, names: Sequence[WalkedName]) -> Iterator[Work]:
        """Return tasks for names whose inode is of no other record, as far as they must be read."""
        by_folder: dict[bytes, list[Seen]] = {}
        for name in names:
            if not name.is_recorded:
                by_folder.setdefault(name.place.folder, []).append(name.seen)
        yield from self._new_files.add_new(by_folder.items())
        yield from self.recheck(name.place for name in names if name.is_recorded)

    def recheck(self, places: Iterable[TreePlace], *, is_read: bool = False) -> Iterator[Work]:
        """
        Compare names again with their current records; return tasks for those that must be read.

        Args:
            is_read: read those that are recorded, whatever their stat is.
        """
        for place in places:
            with self._run.catalog.read() as connection:
                task = self._recheck(connection, place, is_read=is_read)
            self._new_files.found.store()
            if task is not None:
                yield task

    def _recheck(self, connection: Connection, place: TreePlace, *, is_read: bool) -> Work | None:
        old = self._find_names(connection, place.folder, [place.name]).get(place.name)
        if old is not None and is_read:
            self._seen.add(old.id)
            return self._task(connection, old.id)
        try:
            seen = _as_seen(place.name, stat_beneath(self._run.root_fd, place.path))
        except OSError:  # gone since: MissingFiles handles it if it is recorded
            if old is not None:
                self._seen.discard(old.id)
            return None
        if old is None:
            return next(iter(self._new_files.add_unknown(connection, [(place.folder, [seen])])), None)
        self._seen.add(old.id)
        return self._task_of_known(connection, place.folder, seen, old)

    def _task(self, connection: Connection, file_id: FileId) -> Task | None:
        found = files.find_files(connection, [file_id])
        if not found:  # deleted from the catalog: the next scan finds it as new
            self._seen.discard(file_id)
            self._run.count_unrecorded(Tally.SKIPPED)
            return None
        record = found[0]
        probe = prefix_probe(record) if self._run.settings.policy in KEEPS_BEGINNING else None
        block_size = record.block_size_bytes or self._run.settings.block_size_bytes
        return Task(record.path, record.witness.size_bytes, self._want, block_size, record, probe=probe)


def _as_seen(name: bytes, stat: os.stat_result) -> Seen:
    return Seen(name, *witness_of(stat).stamps, stat.st_nlink)


def _catalog_files(path: bytes) -> frozenset[tuple[int, int]]:
    """Return device and inode of the catalog's own files, in case they lie in the root."""
    found = set()
    for suffix in (b"", *SQLITE_SUFFIXES):
        with suppress(FileNotFoundError):
            stat = os.stat(path + suffix)
            found.add((stat.st_dev, stat.st_ino))
    return frozenset(found)
