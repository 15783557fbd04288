"""
Compare what a walk finds in a root with its records, and decide what must be read.

A folder whose fingerprint equals the recorded one costs one comparison; no row of its files is read. Folders without a
fingerprint are compared as whole lists, with all loops in C. Only folders with a difference are compared file by file.
A file with only ctime or inode changed becomes a suspect, which scrubs read early (R2). Unknown names go to
``NewFiles``, names the walk could not reach to ``MissingFiles``. Only folders and stats are read, and only fingerprints
and findings about folders are written.

I1  Each name that is met is counted here, or passed to exactly one counter (R8).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, groupby, repeat
from operator import itemgetter
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from integrity.catalog import files, roots, versions
from integrity.catalog.files import KnownFile, PlainRow
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
from integrity.jobs.checkpoints import Checkpoints
from integrity.jobs.judge.assess import Assessor
from integrity.jobs.judge.content_diff import KEEPS_BEGINNING, prefix_probe
from integrity.jobs.judge.inodes import ReplacedInodes, TreePlace
from integrity.jobs.options import ScanOptions
from integrity.jobs.report import NoteKind
from integrity.jobs.scan.missing_files import MissingFiles
from integrity.jobs.scan.new_files import NewFiles
from integrity.jobs.scan.respelled_files import Respelled, RespelledFiles
from integrity.model import FileId, FindingKind, FolderId, RootId, SkipReason, Tally, Witness
from integrity.verdict import compare_witness

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun


T = TypeVar("T")

_FOLDERS_AT_ONCE = 256
_FILES_AT_ONCE = 4096
"""A larger group would leave the processor's cache before it is compared."""

_folder_of = itemgetter(FolderListing._fields.index("folder"))
_files_of = itemgetter(FolderListing._fields.index("files"))
_path_of = itemgetter(0)
_id_of = itemgetter(-1)
_known_of = itemgetter(slice(1, 6))  # name, size, mtime, ctime, inode of a PlainRow
_seen_of = itemgetter(slice(0, 5))  # the same columns of a Seen


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


class FoldersByFingerprint(NamedTuple):
    """Listings by the result of comparing their fingerprints."""

    unchanged: list[tuple[FolderId, int]]  # unchanged folders with their number of files
    other: list[FolderListing]
    without: dict[bytes, FolderId]  # folders of ``other`` that are recorded without a fingerprint


def split_by_fingerprint(
    connection: Connection, root_id: RootId, listings: Sequence[FolderListing]
) -> FoldersByFingerprint:
    """Separate folders whose fingerprint equals the recorded one from the others."""
    paths = [listing.folder for listing in listings if listing.fingerprint is not None]
    known = {one.folder: one for one in find_fingerprints(connection, root_id, paths)}
    folders = FoldersByFingerprint([], [], {})
    for listing in listings:
        found = known.get(listing.folder)
        if found is None:
            if listing.files or listing.fingerprint is None:  # otherwise an empty folder without records
                folders.other.append(listing)
        elif found.fingerprint == listing.fingerprint:
            folders.unchanged.append((found.id, len(listing.files)))
        else:
            folders.other.append(listing)
            if found.fingerprint is None:
                folders.without[listing.folder] = found.id
    return folders


class Split(NamedTuple):
    """Listings by the result of comparing their files."""

    unchanged: list[FileId]  # the files of unchanged folders
    other: list[FolderListing]  # to be compared file by file
    unknown: list[FolderListing]  # whole folders without records
    same: list[FolderListing]  # the folders of ``unchanged``


def split_unchanged(connection: Connection, root_id: RootId, listings: Sequence[FolderListing]) -> Split:
    """
    Separate unchanged folders from changed ones and from unrecorded ones.

    A folder is unchanged if exactly the recorded files were found in it, with the recorded size, times and inode, and
    none of them is racy or frozen. For a partial listing this applies to the listed names.
    """
    whole = sorted((listing for listing in listings if listing.is_whole), key=_folder_of)
    rows = files.find_plain(connection, root_id, list(map(_folder_of, whole)))
    if len(whole) == len(listings) and _is_same(whole, rows):
        return Split(list(map(_id_of, rows)), [], [], list(listings))
    known = {path: list(group) for path, group in groupby(rows, _path_of)}
    split = Split([], [], [], [])
    for listing in listings:
        if listing.is_whole:
            recorded = known.get(listing.folder, [])
        else:
            recorded = files.find_plain(connection, root_id, [listing.folder], [one.name for one in listing.files])
        if _is_same([listing], recorded):
            split.unchanged.extend(map(_id_of, recorded))
            split.same.append(listing)
        elif listing.is_whole and not recorded:
            split.unknown.append(listing)
        else:
            split.other.append(listing)
    return split


def _is_same(listings: Sequence[FolderListing], rows: Sequence[PlainRow]) -> bool:
    """Return whether folders, sorted by path, contain exactly the recorded files."""
    seen = list(map(_files_of, listings))
    if sum(map(len, seen)) != len(rows):
        return False
    folders_met = chain.from_iterable(map(repeat, map(_folder_of, listings), map(len, seen)))
    files_met = map(_seen_of, chain.from_iterable(seen))
    return list(map(_path_of, rows)) == list(folders_met) and list(map(_known_of, rows)) == list(files_met)


_SEEK_BYTES = 1 << 19
"""What a disk reads in the time of one seek: 5 ms at 100 MB/s."""


class TreeDiff:
    """
    Compare one root, or a part of it, with its records.

    Args:
        assessor: counts files that need no reading.
        new_files: handles unknown names, and has the recorded files that were met.
        missing_files: handles names that could not be read or were skipped on purpose.
        replaced: queues names that lead to another inode.
        write_if_due: writes queued rows; a walk without reads has no other occasion for it.
        is_prelude: a scrub follows, which reads and counts the known files.
    """

    def __init__(
        self,
        run: RootRun,
        options: ScanOptions,
        assessor: Assessor,
        new_files: NewFiles,
        missing_files: MissingFiles,
        checkpoints: Checkpoints,
        replaced: ReplacedInodes,
        *,
        write_if_due: Callable[[], None],
        is_prelude: bool,
    ) -> None:
        self._run = run
        self._is_full = options.full
        self._touched_bytes = options.touched_bytes  # what is left of it
        self._is_prelude = is_prelude
        self._assessor = assessor
        self._new_files = new_files
        self._missing_files = missing_files
        self._checkpoints = checkpoints
        self._replaced = replaced
        self._seen = new_files.seen
        self._write_if_due = write_if_due
        self._want = want_to_record(blake3="blake3" in run.settings.digests)
        self._respelled_files = RespelledFiles(run)
        self._folders_with_missing = {path.rpartition(b"/")[0] for path in assessor.account.missing_paths}
        self.suspects: dict[FileId, Sighting | None] = {}
        self.put_back: list[FileId] = []
        self.changed = IdSet()

    def walk(self) -> Iterator[Work]:
        """Compare the tree with its records; yield what must be read."""
        for group in gather(self._listings()):
            if self._run.context.stop.is_set():
                return
            for listing in group:
                self._record_skips(listing)
            split = self._count_unchanged(group)
            with self._run.catalog.read() as connection:
                known = self._find_recorded(connection, split)
                respelled = self._find_respelled(connection, split, known)
            if respelled:
                self._respelled_files.follow(respelled)
                split = Split(split.unchanged, [*split.other, *split.unknown], [], split.same)
            with self._run.catalog.read() as connection:
                if respelled:
                    known = self._find_recorded(connection, split)
                tasks = self._compare_all(connection, split, known)
            yield from tasks
            self._write_if_due()
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
            self._missing_files.add_unlisted(error.path)
            self._run.is_incomplete = True
            if error.path != listing.folder and not self._is_known(error.path):
                self._run.count_unrecorded(Tally.UNREADABLE)
            with self._run.writing() as connection:
                self._run.open_finding(connection, FindingKind.UNREADABLE, error.message, path=error.path)

    def _count_unchanged(self, listings: list[FolderListing]) -> Split:
        """Count the files of unchanged folders; return the other folders."""
        if self._is_full:
            return Split([], listings, [], [])
        with_missing = [listing for listing in listings if listing.folder in self._folders_with_missing]
        if with_missing:
            listings = [listing for listing in listings if listing.folder not in self._folders_with_missing]
        with self._run.catalog.read() as connection:
            folders = split_by_fingerprint(connection, self._run.root.id, listings)
            if not folders.without:
                split = split_unchanged(connection, self._run.root.id, folders.other)
        if folders.without:
            split = self._store_fingerprints(folders)
        for folder_id, count in folders.unchanged:
            self._seen.add_folder(folder_id, count)
        self._seen.update(split.unchanged)
        if not self._is_prelude:
            self._run.counts.not_due += len(split.unchanged) + sum(count for _, count in folders.unchanged)
        return split._replace(other=[*with_missing, *split.other])

    def _store_fingerprints(self, folders: FoldersByFingerprint) -> Split:
        """Compare with the rows and store the fingerprints of unchanged folders; no row can change in between."""
        with self._run.writing(is_synced=False) as connection:
            split = split_unchanged(connection, self._run.root.id, folders.other)
            same = ((folders.without.get(one.folder), one) for one in split.same)
            set_fingerprints(
                connection,
                [
                    (folder_id, one.fingerprint, len(one.files))
                    for folder_id, one in same
                    if folder_id is not None and one.fingerprint is not None
                ],
            )
        return split

    def _find_recorded(self, connection: Connection, split: Split) -> list[dict[bytes, KnownFile]]:
        """Return the recorded files of each folder that is compared file by file, by name."""
        return [
            self._find_names(connection, one.folder, None if one.is_whole else [seen.name for seen in one.files])
            for one in split.other
        ]

    def _find_respelled(
        self, connection: Connection, split: Split, recorded: Sequence[dict[bytes, KnownFile]]
    ) -> list[Respelled]:
        pairs = chain(zip(split.other, recorded, strict=True), ((listing, {}) for listing in split.unknown))
        return [one for listing, known in pairs for one in self._respelled_files.find(connection, listing, known)]

    def _compare_all(
        self, connection: Connection, split: Split, recorded: Sequence[dict[bytes, KnownFile]]
    ) -> list[Work]:
        """Compare the other folders file by file."""
        tasks: list[Work] = []
        for listing, known in zip(split.other, recorded, strict=True):
            tasks += self._compare(connection, listing, known)
        return tasks + self._tasks_of_new(connection, [(listing.folder, listing.files) for listing in split.unknown])

    def _compare(self, connection: Connection, listing: FolderListing, known: dict[bytes, KnownFile]) -> list[Work]:
        """Sort the files of one folder into unchanged, suspect, to be read, and unknown."""
        missing_paths = self._assessor.account.missing_paths
        inodes_are_stable = self._run.capability.has_stable_inodes
        tasks: list[Work] = []
        unknown: list[Seen] = []
        met: list[FileId] = []
        unchanged = 0
        for seen in listing.files:
            old = known.get(seen.name)
            if old is None:
                unknown.append(seen)
                continue
            met.append(old.id)
            if missing_paths:
                self._resolve_missing(TreePlace(listing.folder, seen.name).path, old)
            if old.stamps == seen.stamps and not self._is_full and not old.is_racy and not old.is_frozen:
                unchanged += 1
                continue
            if old.last_inode != seen.inode and inodes_are_stable:
                if self._replaced.add(TreePlace(listing.folder, seen.name), seen):
                    self._new_files.moved.displaced.add(old.id)
                    continue
                self._new_files.staying.add(old.id)
            task = self._task_of_known(connection, seen, old)
            if task is not None:
                tasks.append(task)
        self._seen.update(met)
        if not self._is_prelude:
            self._run.counts.not_due += unchanged
        return tasks + self._tasks_of_new(connection, [(listing.folder, unknown)])

    def _tasks_of_new(self, connection: Connection, unknown: Sequence[tuple[bytes, Sequence[Seen]]]) -> list[Work]:
        """Return tasks for unknown names, grouped by folder."""
        resume, met = self._checkpoints.resume, self._new_files.add_unknown(connection, unknown)
        return [resume(one) if isinstance(one, Task) else one for one in met]

    def _task_of_new(self, connection: Connection, place: TreePlace, seen: Seen) -> Work | None:
        return next(iter(self._tasks_of_new(connection, [(place.folder, [seen])])), None)

    def _task_of_known(self, connection: Connection, seen: Seen, old: KnownFile) -> Task | None:
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
        if self._is_prelude:
            if is_touched:
                self.changed.add(old.id)
            return None
        if old.is_frozen:
            if self._has_new_stat(connection, old, seen):
                self.put_back.append(old.id)
            else:
                self._assessor.account.count(old.id, Tally.DAMAGED)
            return None
        if not (is_touched or fits_budget or self._is_full):
            self._assessor.account.count(old.id, Tally.NOT_DUE)
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
        if path in self._assessor.account.missing_paths:
            with self._run.writing() as connection:
                self._run.resolve_missing(connection, old.id, path)
            self._assessor.account.missing_paths.discard(path)

    def _is_known(self, path: bytes) -> bool:
        """Return whether ``MissingFiles`` will count an unreadable name: it is recorded, or something below it."""
        with self._run.catalog.read() as connection:
            is_folder = roots.get_folder_id(connection, self._run.root.id, path) is not None
        return is_folder or not self.find_unrecorded([TreePlace.of(path)])

    def find_unrecorded(self, places: Iterable[TreePlace]) -> list[TreePlace]:
        """Return the names that are not recorded now."""
        by_folder: dict[bytes, list[TreePlace]] = {}
        for place in places:
            by_folder.setdefault(place.folder, []).append(place)
        unrecorded: list[TreePlace] = []
        with self._run.catalog.read() as connection:
            for folder, some in by_folder.items():
                known = self._find_names(connection, folder, [place.name for place in some])
                unrecorded += [place for place in some if place.name not in known]
        return unrecorded

    def _find_names(self, connection: Connection, folder: bytes, names: list[bytes] | None) -> dict[bytes, KnownFile]:
        return files.find_known(connection, self._run.root.id, folder, names)

    def recheck(self, places: Iterable[TreePlace]) -> Iterator[Work]:
        """Compare names again with their current records; return tasks for those that must be read."""
        return self._find_tasks(places, self._recheck)

    def tasks_for(self, paths: Iterable[bytes]) -> Iterator[Work]:
        """Return tasks for names that were met before, with their current records."""
        return self._find_tasks(paths, self._task_for)

    def take_put_back(self) -> Iterator[Work]:
        """Return tasks for the files with an open finding to which somebody wrote since, perhaps to mend them."""
        ids, self.put_back = self.put_back, []
        return self._find_tasks(ids, self._task)

    def _find_tasks(self, items: Iterable[T], find: Callable[[Connection, T], Work | None]) -> Iterator[Work]:
        for item in items:
            with self._run.catalog.read() as connection:
                task = find(connection, item)
            if task is not None:
                yield task

    def _recheck(self, connection: Connection, place: TreePlace) -> Work | None:
        old = self._find_names(connection, place.folder, [place.name]).get(place.name)
        if old is not None and self._new_files.moved.is_moving(old.id):
            old = None
        try:
            seen = _as_seen(place.name, stat_beneath(self._run.root_fd, place.path))
        except OSError:  # gone since: MissingFiles handles it if it is recorded
            if old is not None:
                self._seen.discard(old.id)
            return None
        if old is None:
            return self._task_of_new(connection, place, seen)
        self._seen.add(old.id)
        return self._task_of_known(connection, seen, old)

    def _task(self, connection: Connection, file_id: FileId) -> Task | None:
        found = files.find_files(connection, [file_id])
        if not found:  # deleted from the catalog: the next scan finds it as new
            self._seen.discard(file_id)
            self._run.count_unrecorded(Tally.SKIPPED)
            return None
        record = found[0]
        probe = prefix_probe(record) if self._run.settings.policy in KEEPS_BEGINNING else None
        block_size = record.block_size_bytes or self._run.settings.block_size_bytes
        task = Task(record.path, record.witness.size_bytes, self._want, block_size, record, probe=probe)
        return self._checkpoints.resume(task)

    def _task_for(self, connection: Connection, path: bytes) -> Work | None:
        record = files.find_file(connection, self._run.root.id, path)
        if record is not None:
            self._seen.add(record.id)
            return self._task(connection, record.id)
        try:
            stat = stat_beneath(self._run.root_fd, path)
        except OSError:
            return None  # gone since, and not recorded: nothing to count
        place = TreePlace.of(path)
        return self._task_of_new(connection, place, _as_seen(place.name, stat))


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
