"""
List a copy as a whole, beside the records, before any conclusion is drawn from it.

Decides also which of the root's excludes apply to a copy that begins at one of the root's folders.

I1  A name that could not be examined, or lies in a folder that was not listed in full, is never taken for missing.
I2  A listing that breaks off, or contains no recorded name, proves nothing. A missing part counts as missing only if
    the copy has other recorded files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from integrity.catalog import files, versions
from integrity.catalog.copy_listing import (
    StatedFile,
    StoredListing,
    count_listed,
    find_names,
    find_spelling,
    is_any_recorded,
    iterate_extra,
    mark_renamed,
    new_stated,
    page_extra,
    store_spelling,
)
from integrity.catalog.files import page_files
from integrity.catalog.roots import count_files
from integrity.catalog.rows import FileRecord
from integrity.copies.protocol import KINDS, Copy, CopyEntry, Kind, Published, Trouble
from integrity.errors import CopyUnreachable, ReadInterrupted, show_path
from integrity.files.excludes import Excludes
from integrity.files.open_beneath import stat_beneath
from integrity.files.spelling import ignores_case
from integrity.hashing.algorithms import name_digests
from integrity.jobs import messages
from integrity.jobs.batching import IdSet
from integrity.jobs.compare.local_digests import EarlyMatches, FileMatch, LocalPass, MatchRequest
from integrity.jobs.report import NoteKind
from integrity.lists.entries import Digests
from integrity.lists.unnamed import ListAlgorithms
from integrity.same_name import OtherSpellings, SamePaths

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import RootRun, RunLimit


class FolderExcludes(Excludes):
    """
    A root's excludes, for paths relative to one of its folders.

    Args:
        excludes: of the root; their paths begin at the root.
        folder: relative to the root.
    """

    __slots__ = ("_above", "_excludes")

    def __init__(self, excludes: Excludes, folder: bytes) -> None:
        super().__init__()
        self._excludes = excludes
        self._above = folder + b"/"

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        """Return whether one entry is left out; see ``Excludes``."""
        return self._excludes.matches(self._above + path, name, is_folder)

    def may_match(self, names: bytes) -> bool:
        """Return whether any of these files may be left out; see ``Excludes``."""
        return self._excludes.may_match(names)


_AT_ONCE = 1000
_CASES_TRIED = 5  # names in capitals that are looked up on each side
_NAMES_BYTES_AT_ONCE = 4 << 20
_TROUBLES_BYTES_STORED = 16 << 20  # beyond this, the places of errors are not stored
_TROUBLES_REPORTED = 1000
_LATEST_NS = (1 << 63) - 1  # of the catalog; a server may state the year 9999
_OBJECTS_BYTES = 200  # overhead of a name and a message, beside their length


class CopyListing:
    """
    The files of a copy.

    Args:
        copy: entered.
        base: the folder in the root that the copy's top stands for.
        is_other: another folder or disk is at the copy's place than at the last comparison under its name.
        left_out: what the backup leaves out on purpose, by paths in the copy; None: nothing.
        reads: read all files at once, and list their digests.
        limit: when to stop reading.
        read_before: folders in the root whose files need not be read again.

    Attributes:
        files: number of files listed.
        was_read: whether the listed digests were computed from the data.
        was_cut: the limit was reached: what was read until then is listed.
    """

    def __init__(
        self,
        run: RootRun,
        copy: Copy,
        base: bytes,
        *,
        is_other: bool = False,
        left_out: Excludes | None = None,
        reads: bool = False,
        limit: RunLimit | None = None,
        read_before: Collection[bytes] = (),
    ) -> None:
        self._run = run
        self._limit = limit
        self._read_before = read_before
        self.was_cut = False
        self._left_out = left_out
        self._copy = copy
        self._base = base + b"/" if base else b""
        self._is_other = is_other
        self.was_read = reads
        self._troubles: dict[bytes, str] = {}
        self._trouble_count = self._trouble_bytes = 0
        self._has_spellings = False
        self.files = 0

    def read(self) -> None:
        """
        List the part of the copy that belongs to the run.

        Raises:
            CopyUnreachable: the listing broke off, or contains nothing that is recorded.
            ReadInterrupted: it was cut short before it could be known as the copy.
        """
        run = self._run
        with run.catalog.snapshot() as connection:
            stored = StoredListing(connection, run.root.id)
        found = self._entries(self.part)
        for entries in _into_portions(found):
            if run.context.stop.is_set() and not self.was_read:
                return
            with run.catalog.snapshot() as connection:
                stored.add(connection, entries)
            self.files += len(entries)
            step = "read the copy" if self.was_read else "list the copy"
            run.progress(step, self.files, run.counts.bytes_read, files=None, size=None)
        if self.was_cut:
            with run.catalog.read() as connection:
                if self._is_other or not count_listed(connection):  # it could not be refused as strange yet (R5)
                    raise ReadInterrupted("the copy was not read far enough to know it")
            return
        if self._trouble_count > _TROUBLES_REPORTED:
            run.note(NoteKind.WARNING, None, messages.more_troubles(self._trouble_count - _TROUBLES_REPORTED))
        spelled = OtherSpellings()
        self._find_spellings(stored, spelled)
        for text in (*self._copy.describe(), *spelled.describe()):
            run.note(NoteKind.WARNING, None, f"{self._copy.shown}: {text}")
        self._refuse_strange()

    def _find_spellings(self, stored: StoredListing, spelled: OtherSpellings) -> None:
        """Take listed names that are not recorded for the recorded ones that they are another spelling of."""
        run, after, respelled = self._run, 0, IdSet()
        with run.catalog.snapshot() as connection:
            names = partial(find_names, connection, run.root.id)
            is_list = not self._copy.has_bytes
            ignores = is_list or self._ignores_case([path for _, path, _ in page_extra(connection, 0, _CASES_TRIED)])
            paths = SamePaths(names, ignores_case=ignores, has_backslashes=is_list)
            while page := page_extra(connection, after, _AT_ONCE):
                after = page[-1][0]
                for _, path, listed in page:
                    found = paths.find(path)
                    file_id, is_listed = (None, False) if found is None else stored.find_recorded(connection, found)
                    # Two spellings of one file, neither its own, are a contradiction unless they state the same.
                    if found is None or file_id is None or (is_listed and file_id not in respelled):
                        continue
                    respelled.add(file_id)
                    stored.add(connection, [(found, listed)])
                    mark_renamed(connection, listed.size_bytes or 0, path)
                    store_spelling(connection, found, path)
                    self._has_spellings = True
                    spelled.add(self.place(path), self.place(found))

    def _ignores_case(self, listed: Sequence[bytes]) -> bool:
        """Return whether the disk of the root, or that of the copy, takes a name in capitals for the same."""
        folder = self._copy.folder
        if folder is not None and ignores_case(folder.root_fd, map(self.place, listed)):
            return True
        with self._run.catalog.read() as connection:
            recorded = page_files(connection, self._run.root.id, limit=_CASES_TRIED)
        return ignores_case(self._run.root_fd, (path for _, path, _ in recorded))

    def _refuse_strange(self) -> None:
        """Refuse a listing that can't be the copy (R5)."""
        run = self._run
        with run.catalog.read() as connection:
            listed = count_listed(connection)
            files = count_files(connection, run.root.id, run.prefix if self.part else self._base[:-1])
        if self._is_other and listed * 2 < files and listed * 2 < (files := self._count_expected()):
            raise CopyUnreachable(f"{self._copy.shown}: {messages.strange_and_short(listed, files)}")
        if files and not listed:
            self._refuse_unknown()
        if self.files and not files and not self.part:
            run.is_incomplete = True
            run.note(NoteKind.WARNING, None, messages.NOTHING_RECORDED)

    def _count_expected(self) -> int:
        """Count the recorded files that the copy does not leave out on purpose."""
        count, last = 0, 0
        while True:
            with self._run.catalog.read() as connection:
                prefix = self._run.prefix if self.part else self._base[:-1]
                page = page_files(connection, self._run.root.id, prefix=prefix, after=last)
            if not page:
                return count
            last = page[-1][0]
            count += sum(not self.is_left_out(path) for _, path, _ in page)

    def is_left_out(self, path: bytes) -> bool:
        """Return whether the backup leaves out a recorded file on purpose."""
        return self._left_out is not None and self._left_out.covers(self.place(path))

    def _refuse_unknown(self) -> None:
        """Refuse a copy without any recorded name; if only a part was listed, search the whole copy first."""
        run, files = self._run, self.files
        if self.part:
            files = 0
            paths = (self._base + found.path for found in self._copy.list() if not isinstance(found, Trouble))
            while some := list(islice(paths, _AT_ONCE)):
                files += len(some)
                with run.catalog.read() as connection:
                    if is_any_recorded(connection, run.root.id, some):
                        return
        raise CopyUnreachable(f"{self._copy.shown}: {messages.strange(files)}")

    @property
    def part(self) -> bytes:
        """Return the part of the copy that is compared, as a path in the copy; empty for all of it."""
        return self.place(self._run.prefix)

    def place(self, path: bytes) -> bytes:
        """Return the path in the copy of a path in the root; empty for the copy's top."""
        return path[len(self._base) :]

    def covers(self, path: bytes) -> bool:
        """Return whether a path in the root lies in the folder that is copied."""
        return path.startswith(self._base)

    def find_spelling(self, path: bytes) -> bytes | None:
        """Return the path in the root under whose spelling the copy has a recorded file; None: under its own."""
        if not self._has_spellings:
            return None
        with self._run.catalog.read() as connection:
            return find_spelling(connection, path)

    def find_place(self, path: bytes) -> bytes:
        """Return the path in the copy of a recorded file, as the copy spells it."""
        return self.place(self.find_spelling(path) or path)

    def find_trouble(self, place: bytes) -> str | None:
        """Return why a path of the copy, or a folder above it, could not be examined; None if it could."""
        if not self._troubles:
            return None
        while place not in self._troubles:
            if not place:
                return None
            place = place.rpartition(b"/")[0]
        return self._troubles[place]

    def find_name_fault(self, place: bytes) -> str | None:
        """Say why a file can't be in the copy under its name."""
        return self._copy.find_name_fault(place)

    def _entries(self, prefix: bytes) -> Iterator[tuple[bytes, StatedFile]]:
        for found in self._read_all(prefix) if self.was_read else self._copy.list(prefix):
            if isinstance(found, Trouble):
                self._record_trouble(found)
            else:
                yield self._base + found.path, pack_entry(found)

    def _read_all(self, prefix: bytes) -> Iterator[CopyEntry | Trouble]:
        """Read until the limit is reached."""
        run, without = self._run, {self.place(folder) for folder in self._read_before}
        try:
            for found in self._copy.read_all(prefix, without):
                if isinstance(found, CopyEntry) and found.published and found.size_bytes is not None:
                    run.counts.bytes_read += found.size_bytes
                    run.pace.take(found.size_bytes)
                    run.pace.took(found.size_bytes, 0.0)
                yield found
                if self._limit is not None and self._limit.is_set():
                    self.was_cut = True
                    return
        except ReadInterrupted:
            self.was_cut = True

    def _record_trouble(self, trouble: Trouble) -> None:
        self._run.is_incomplete = True
        self._trouble_count += 1
        self._trouble_bytes += len(trouble.path) + len(trouble.message) + _OBJECTS_BYTES
        if self._trouble_bytes > _TROUBLES_BYTES_STORED:
            self._troubles[b""] = messages.TOO_MANY_TROUBLES
        else:
            self._troubles.setdefault(trouble.path, trouble.message)
        if self._trouble_count > _TROUBLES_REPORTED:
            return
        place = f"{show_path(trouble.path)}: " if trouble.path else ""
        self._run.note(NoteKind.WARNING, None, f"in the copy: {place}{trouble.message}")

    def report_extra(self) -> int:
        """Report the files that only the copy has, and return how many; call it after the comparison."""
        count = 0
        with self._run.catalog.read() as connection:
            for path in iterate_extra(connection):
                if not self._run.excludes.covers(path, is_folder=False):
                    count += 1
                    self._run.note(NoteKind.EXTRA, path, messages.extra(is_here=self._is_here(path)))
        return count

    def _is_here(self, path: bytes) -> bool:
        try:
            stat_beneath(self._run.root_fd, path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            pass  # something is there, but can't be examined
        return True


def _into_portions(found: Iterator[tuple[bytes, StatedFile]]) -> Iterator[list[tuple[bytes, StatedFile]]]:
    """Group entries into batches; smaller ones if long names would fill memory."""
    portion: list[tuple[bytes, StatedFile]] = []
    size = 0
    for one in found:
        portion.append(one)
        size += len(one[0])
        if len(portion) >= _AT_ONCE or size >= _NAMES_BYTES_AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def unpack_published(listed: StatedFile) -> tuple[Published, ...]:
    """Return the digests that a copy states, from its stored listing."""
    return tuple(Published(Kind(kind), value, sizes, parts) for kind, value, sizes, parts in listed.published)


def pack_entry(entry: CopyEntry) -> StatedFile:
    """Return the part of an entry that is stored with the listing."""
    mtime_ns = entry.mtime_ns
    if mtime_ns is not None and not -_LATEST_NS <= mtime_ns <= _LATEST_NS:
        mtime_ns = None
    if not entry.published:
        return new_stated((entry.size_bytes, (), False, mtime_ns, entry.inode))
    published = tuple((one.kind.value, one.value, one.part_sizes, one.parts) for one in entry.published)
    return StatedFile(entry.size_bytes, published, mtime_ns=mtime_ns, inode=entry.inode)


def find_algorithms(run: RootRun, copy: Copy, base: bytes) -> EarlyMatches:
    """
    Find the algorithms of a list's digests, by records, or by reading some of its files: that is not done again.

    For copies that name theirs, do nothing.

    Args:
        copy: entered.
        base: the folder in the root that the copy's top stands for.

    Returns:
        What the files that were read turned out to be.
    """
    algorithms = copy.algorithms
    if algorithms is None:
        return {}
    sample: list[tuple[FileRecord, Digests]] = []
    with run.catalog.read() as connection:
        paths = SamePaths(partial(find_names, connection, run.root.id), ignores_case=True, has_backslashes=True)
        for place, digests in copy.sample_unnamed():
            path = base + b"/" + place if base else place
            find_file = partial(files.find_file, connection, run.root.id)
            record = find_file(path)
            if record is None and (found := paths.find(path)) is not None:
                record = find_file(found)
            if record is not None:
                _ask_records(connection, run, algorithms, record, digests)
                sample.append((record, digests))
    early: EarlyMatches = {}
    for record, digests in sorted(sample, key=lambda one: one[0].witness.size_bytes):
        if algorithms.is_open(digests) and not run.context.stop.is_set():
            _read(run, algorithms, record, digests, early)
    algorithms.conclude()
    return early


def _ask_records(
    connection: Connection, run: RootRun, algorithms: ListAlgorithms, record: FileRecord, digests: Digests
) -> None:
    """Learn from what is recorded of a file, and from its former versions: the list may be an old one."""
    algorithms.take(digests, name_digests(record.digests))
    if algorithms.is_open(digests):
        for former in versions.former_of(connection, run.root.id, record.path):
            algorithms.take(digests, name_digests(former.digests))


def _read(run: RootRun, algorithms: ListAlgorithms, record: FileRecord, digests: Digests, early: EarlyMatches) -> None:
    """Read a file with all candidates, and learn which of them match."""
    stated = {one: digest for key, digest in digests.items() for one in algorithms.expand((key,))}
    published = tuple(Published(KINDS[one], digest) for one, digest in stated.items())
    for _, found in LocalPass(run, has_etags=False, jobs=1).match([MatchRequest(None, record, published)]):
        if isinstance(found, FileMatch):
            matches = zip(stated.items(), found.matches, strict=True)
            # Of a candidate that does not match, any other digest does.
            algorithms.take(digests, {one: digest if is_match else b"" for (one, digest), is_match in matches})
            early[record.id] = published, found
