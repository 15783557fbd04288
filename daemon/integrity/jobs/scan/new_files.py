"""
Record names that the catalog does not know: new files, new names of known files, and files that were moved.

A moved file keeps its record and its history. Names of known inodes are left to ``FoundNames``; other files are
recognized after the walk by content (digest and size), if a recorded file is missing and the match is unique (R5). Hard
links are hashed once and recorded under each name.

I1  No name gets a baseline of its own before it was compared with what is known: the record of its inode, damage with
    its content, and a deleted file with its name, size and mtime (see ``inherited.py``).
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, TypeGuard

from integrity.catalog import baselines, files, versions
from integrity.catalog.baselines import NewFile
from integrity.catalog.connection import make_timer, write_page
from integrity.catalog.rows import FileContent, FileRecord, find_current
from integrity.errors import show_path
from integrity.files.listing import FolderFiles, Seen
from integrity.hashing.digests import want_to_record
from integrity.hashing.tasks import DoneBatch, Task, TaskBatch, Work
from integrity.hashing.work_queue import small_bytes
from integrity.jobs.judge import inherited
from integrity.jobs.judge.inherited import (
    InQuestion,
    KnownDamage,
    RenameKey,
    find_formers,
    find_rename_keys,
    is_renamed,
)
from integrity.jobs.judge.inodes import has_its_file, is_backup_name
from integrity.jobs.presence import may_be_there
from integrity.jobs.report import NoteKind
from integrity.jobs.scan.found_names import FoundNames
from integrity.jobs.scan.moved_files import MovedFiles
from integrity.model import FileId, Reading, Readings, Tally, Witness

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun
    from integrity.jobs.judge.inodes import ReplacedInodes, TreePlace
    from integrity.jobs.scan.missing_files import MetFiles

_LINKS_KEPT = 10_000
"""Maximum number of hashed files with several names that are remembered for names to come."""

_ROWS_AT_ONCE = 100
_NEW_AT_ONCE = 2000
"""New files recorded between two checks of the clock; their comparison data is queried together."""

_BATCHES_AT_ONCE = 32
"""The same in batches, which hold up to 256 files each, usually fewer than 64."""

_NEW_KEPT = 200_000
"""New files remembered by content, to recognize moves; beyond it, a move is recorded as new and deleted."""


@dataclass(slots=True)
class UnknownFile:
    """A new file with hard links that is being read, with all names found meanwhile."""

    paths: list[bytes]
    witness: Witness


class NewFiles:
    """
    Collect unknown names and record them in batches.

    Args:
        seen: the recorded files that were met; moved ones are added.
        replaced: names under which another inode than recorded was found.
        counts_known_files: no scrub follows that counts them.

    Attributes:
        moved: the recorded files found under new names.
        found: the names whose inode may be the one of another record.
    """

    def __init__(self, run: RootRun, seen: MetFiles, replaced: ReplacedInodes, *, counts_known_files: bool) -> None:
        self._run = run
        self._counts_known_files = counts_known_files
        self.seen = seen
        self.moved = MovedFiles(run, seen, counts_known_files=counts_known_files)
        self.found = FoundNames(run, seen, self.moved, replaced)
        self._want = want_to_record(blake3="blake3" in run.settings.digests)
        self._links: OrderedDict[Witness, UnknownFile | Reading] = OrderedDict()
        self._ready: deque[NewFile] = deque()
        self._small: deque[DoneBatch] = deque()
        self._small_count = 0  # files in these batches
        self._damage = KnownDamage()
        with run.catalog.read() as connection:
            self._has_history = versions.has_former(connection, self.found.place)
        self._can_move = run.root.file_count > 0
        self._has_stable_inodes = run.capability.has_stable_inodes
        self._new_by_content: dict[tuple[int, bytes], FileId | None] = {}
        self._new_by_key: defaultdict[RenameKey, list[tuple[int, FileId]]] = defaultdict(list)
        self.racy: list[bytes] = []
        self.new_count = 0  # names in ``seen`` recorded by this run
        self.restored: list[bytes] = []

    def add_unknown(self, connection: Connection, unknown: Sequence[tuple[bytes, Sequence[Seen]]]) -> list[Work]:
        """Return tasks for the unknown names, grouped by folder, that must be read; keep those of known inodes."""
        return self.add_new(self.found.take_known(connection, unknown))

    def add_new(self, unknown: Iterable[tuple[bytes, Sequence[Seen]]]) -> list[Work]:
        """Return tasks for names of unknown inodes."""
        want, block_size = self._want, self._run.settings.block_size_bytes
        most = small_bytes(block_size)
        tasks: list[Work] = []
        paths: list[bytes] = []
        sizes: list[int] = []
        for folder, names in unknown:
            prefix = folder + b"/" if folder else b""
            if self._are_plain(names) and max(names.sizes_bytes, default=0) <= most:
                paths += names.find_paths(prefix)
                sizes += names.sizes_bytes
                continue
            for path, size, unknown_file in self._add_singly(prefix, names):
                if unknown_file is not None or size > most:
                    tasks.append(Task(path, size, want, block_size, unknown_file))
                else:
                    paths.append(path)
                    sizes.append(size)
        if paths:
            count = len(paths)
            none = [None] * count
            tasks.append(TaskBatch(paths, sizes, [want] * count, none, none, [()] * count, block_size))
        return tasks

    def _are_plain(self, names: Sequence[Seen]) -> TypeGuard[FolderFiles]:
        """Return whether every name is a file without links."""
        return isinstance(names, FolderFiles) and not (self._has_stable_inodes and names.has_links)

    def _add_singly(self, prefix: bytes, names: Iterable[Seen]) -> Iterator[tuple[bytes, int, UnknownFile | None]]:
        """Yield the names that must be read: of a file with several, only the first one."""
        for name, size, mtime_ns, ctime_ns, inode, links in names:
            unknown_file = None
            if links > 1 and self._has_stable_inodes:
                unknown_file = self._add_link(prefix + name, Witness(size, mtime_ns, ctime_ns, inode))
                if unknown_file is None:
                    continue
            yield prefix + name, size, unknown_file

    def _add_link(self, path: bytes, witness: Witness) -> UnknownFile | None:
        """Handle a name of a file with several; return the file unless it was or will be read under another name."""
        known = self._links.get(witness)
        if isinstance(known, UnknownFile):
            known.paths.append(path)
            return None
        if known is not None:
            self._ready.append(NewFile(path, known._replace(bytes_read=0)))
            return None
        unknown_file = self._links[witness] = UnknownFile([path], witness)
        return unknown_file

    def add_reading(self, task: Task, reading: Reading) -> None:
        """Queue the reading of a new file for all its names."""
        self._ready.append(NewFile(task.path, reading))
        unknown_file = task.tag
        if not isinstance(unknown_file, UnknownFile):
            return
        if unknown_file.witness in self._links:
            self._links[unknown_file.witness] = reading
            self._links.move_to_end(unknown_file.witness)
            while len(self._links) > _LINKS_KEPT and not isinstance(next(iter(self._links.values())), UnknownFile):
                self._links.popitem(last=False)
        self._ready += [NewFile(path, reading._replace(bytes_read=0)) for path in unknown_file.paths[1:]]

    def add_batch(self, done: DoneBatch) -> None:
        """Queue the readings of new files with one name each."""
        if self._can_move or self._has_history:
            self._ready += [NewFile(one.task.path, one.reading) for one in done.each()]
        else:
            self._small.append(done)
            self._small_count += len(done.tasks)

    def take_paths(self, task: Task) -> list[bytes]:
        """Drop a new file that could not be read; return the names it was met under."""
        if not isinstance(task.tag, UnknownFile):
            return [task.path]
        self._links.pop(task.tag.witness, None)
        return task.tag.paths

    @property
    def waiting(self) -> int:
        """The number of rows queued for ``flush``."""
        return len(self._ready) + len(self.found.linked) + self._small_count

    def flush(self, connection: Connection) -> bool:
        """
        Write a page of what is queued, after which the catalog is as if the run had met no more than that.

        Returns:
            Whether nothing is left.
        """
        is_over = make_timer(self._run.context.monotonic)
        return (
            write_page(self.found.linked, _ROWS_AT_ONCE, partial(self._write_links, connection), is_over)
            and write_page(self._ready, _NEW_AT_ONCE, partial(self._write_new, connection), is_over)
            and write_page(self._small, _BATCHES_AT_ONCE, partial(self._write_small, connection), is_over)
        )

    def _write_small(self, connection: Connection, batches: list[DoneBatch]) -> None:
        """Record the first files of a root, compared only with content that has an open finding in another root."""
        self._small_count -= sum(len(done.tasks) for done in batches)
        if self._damage.has_any(connection):
            self._write_new(
                connection, [NewFile(one.task.path, one.reading) for done in batches for one in done.each()]
            )
        else:
            paths = [path for done in batches for path in done.tasks.paths]
            self._record(connection, paths, Readings.join([done.readings for done in batches]))

    def _write_new(self, connection: Connection, ready: list[NewFile]) -> None:
        rows = [row for row in ready if not self._record_damage(connection, *row)]
        if self._has_history:
            rows = self._record_restored(connection, rows)
        if rows:
            ids = self._record(connection, [row.path for row in rows], Readings.of([row.reading for row in rows]))
            if self._can_move:
                self._remember(rows, ids)
            if self._has_history:
                self._adopt_histories(connection, rows, ids)

    def _record(self, connection: Connection, paths: Sequence[bytes], readings: Readings) -> list[FileId]:
        run = self._run
        ids = baselines.record_files(connection, run.root, paths, readings, now=run.now(), boot_id=run.boot_id)
        self._count_new(ids, Tally.NEW)
        self.racy += compress(paths, readings.are_racy)
        return ids

    def _count_new(self, ids: Sequence[FileId], tally: Tally) -> None:
        self.seen.update(ids)
        self.new_count += len(ids)
        self._count(tally, len(ids))

    def _record_restored(self, connection: Connection, rows: list[NewFile]) -> list[NewFile]:
        """Record files that history knows with other content under the former baseline; return the others."""
        run, formers = self._run, find_formers(self._run, connection, rows, self.found.place)
        left: list[NewFile] = []
        for row in rows:
            former, file_id = formers.get(row.path), None
            if former is not None:
                file_id = inherited.record_former(
                    run, connection, row.path, row.reading, former.record, has_inode=former.has_inode
                )
            if file_id is None:
                left.append(row)
            else:  # counted when it is read again
                self.seen.update((file_id,))
                self.new_count += 1
                self.restored.append(row.path)
        return left

    def _record_damage(self, connection: Connection, path: bytes, reading: Reading) -> bool:
        """Record a new file whose content is known damage, as moved or copied; return whether it was recorded."""
        run, found = self._run, self._damage.find(connection, reading)
        if found is None:
            return False
        damage, original = found
        is_put_aside = is_backup_name(path, original.path) and may_be_there(run.root_fd, original.path)
        if is_put_aside and not has_its_file(run.root_fd, original):
            return False  # the damaged file, put aside for a restored one
        if original.root_id == run.root.id and self._is_original_gone(found, reading):
            inherited.move_to_copy(run, connection, path, reading, damage)
            self.seen.add(original.id)
            self.moved.report_moved(connection, original, path)
            self._count(Tally.DAMAGED, 1)
            return True
        if not damage.is_damage:  # newer content of a damaged file may be intended
            return False
        return self._count_inherited(inherited.record_copy(run, connection, path, reading, damage), is_damaged=True)

    def _is_original_gone(self, found: InQuestion, reading: Reading) -> bool:
        """Return whether a damaged file's name is gone, or leads to another inode while the reading has its own."""
        run, original, witness = self._run, found.original, found.content.witness
        if original.id not in self.seen and not may_be_there(run.root_fd, original.path):
            return True
        is_it = witness is not None and witness.inode == reading.witness.inode
        return is_it and run.capability.has_stable_inodes and not has_its_file(run.root_fd, original)

    def _remember(self, rows: list[NewFile], ids: list[FileId]) -> None:
        for (path, reading), file_id in zip(rows, ids, strict=True):
            if reading.digests.md5 is not None and len(self._new_by_content) < _NEW_KEPT:
                content = (reading.witness.size_bytes, reading.digests.md5)
                self._new_by_content[content] = None if content in self._new_by_content else file_id
                key, *_ = find_rename_keys(self._run.capability, path, reading.witness)
                self._new_by_key[key].append((reading.witness.mtime_ns, file_id))

    def _adopt_histories(self, connection: Connection, rows: list[NewFile], ids: list[FileId]) -> None:
        """Let new files continue the history of files that an earlier run found deleted: moved or restored since."""
        for (path, reading), file_id in zip(rows, ids, strict=True):
            seen, md5 = reading.witness, reading.digests.md5
            gone = (
                versions.find_deleted(connection, self._run.root.id, seen, md5=md5) if seen.size_bytes and md5 else []
            )
            if len({one.file_id for one in gone}) == 1:
                versions.adopt_former(connection, gone[0].file_id, file_id)
                self._run.note(
                    NoteKind.MOVED, path, f"was deleted as {show_path(gone[0].path)}; its history goes on here"
                )

    def _write_links(self, connection: Connection, links: list[tuple[FileRecord, TreePlace]]) -> None:
        """Record new names of recorded inodes; if their records changed meanwhile, queue the names to be read."""
        now = {one.id: one for one in files.find_files(connection, {record.id for record, _ in links})}
        found = [(place.path, now.get(record.id), record.version) for record, place in links]
        names = [(path, record) for path, record, version in found if record is not None and record.version == version]
        self.racy += [path for path, record, version in found if record is None or record.version != version]
        file_ids = inherited.record_links(self._run, connection, names)
        for (path, record), file_id in zip(names, file_ids, strict=True):
            if not self._count_inherited(file_id, is_damaged=record.is_frozen) or record.witness.is_racy:
                self.racy.append(path)

    def _count_inherited(self, file_id: FileId | None, *, is_damaged: bool) -> bool:
        if file_id is None:
            return False
        self._count_new([file_id], Tally.DAMAGED if is_damaged else Tally.NEW)
        return True

    def _count(self, tally: Tally, count: int) -> None:
        if self._counts_known_files:
            self._run.counts.add(tally, count)

    def match(self, gone: Sequence[FileRecord]) -> tuple[dict[FileId, FileId], list[tuple[FileRecord, FileId]]]:
        """
        Match missing files with new ones of this run.

        Returns:
            By id, the only new file with the content of the only such missing one; and, of the other missing files, the
            only new file with their size, time and name, whose content differs.
        """
        found = {one.id: self._find_twin(one) for one in gone}
        claims = Counter(found.values())
        twins = {file_id: twin for file_id, twin in found.items() if twin is not None and claims[twin] == 1}
        taken = set(twins.values())
        left = ((one, self._find_successor(one)) for one in gone if one.id not in twins)
        return twins, [(record, new) for record, new in left if new is not None and new not in taken]

    def _find_twin(self, record: FileRecord) -> FileId | None:
        if not record.digests.md5 or not record.witness.size_bytes:
            return None
        return self._new_by_content.get((record.witness.size_bytes, record.digests.md5))

    def _find_successor(self, record: FileRecord) -> FileId | None:
        found = [
            file_id
            for key in find_rename_keys(self._run.capability, record.path, record.witness)
            for mtime_ns, file_id in self._new_by_key.get(key, ())
            if is_renamed(record.witness, mtime_ns)
        ]
        return found[0] if len(found) == 1 else None

    def hold_successors(self, pairs: Sequence[tuple[FileRecord, FileId]]) -> None:
        """
        Compare new files with missing ones of the same name, size and mtime but other content.

        They were copied and damaged on the way, or before. Content recorded elsewhere is no damage. That query reads
        all files, so pass many pairs at once.
        """
        run = self._run
        with run.catalog.read() as connection:
            copies = files.find_files(connection, [file_id for _, file_id in pairs])
            contents = [FileContent(one.witness.size_bytes, one.digests, None) for one in copies]
            found = files.find_by_content(connection, run.root.id, contents)
        unknown = [
            copy
            for copy, same in zip(copies, found, strict=True)
            if copy.digests.md5 and all(one.id == copy.id for one in same)
        ]
        gone = {file_id: record for record, file_id in pairs}

        def write(connection: Connection, page: Sequence[FileRecord]) -> None:
            current = find_current(connection, page)
            for copy in page:
                if copy.id in current and inherited.replace_successor(run, connection, copy, gone[copy.id]):
                    self._count(Tally.NEW, -1)
                    self.restored.append(copy.path)

        run.write_in_pages(unknown, write)
