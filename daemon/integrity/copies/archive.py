"""
A copy that is a repository of backups, which the program reads that made it: restic, borg.

Each backup of the folder is a version; the copy is one of them, the newest unless another one is chosen. A listing has
sizes and times as the program noted them. ``read_all`` has digests of what is stored, from one stream of all files.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import OrderedDict
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from types import TracebackType
from typing import ClassVar, Self, TypeVar

from xxhash import xxh3_128

from integrity.config.copy_urls import hide_secrets
from integrity.copies.base import BaseCopy
from integrity.copies.filenames import find_fault, is_below, require_harmless
from integrity.copies.folder import identify_folder
from integrity.copies.program import Running
from integrity.copies.protocol import CopyEntry, Kind, Published, Trouble
from integrity.copies.repository import ArchiveOptions, Backup, Item, Repository, is_local
from integrity.copies.tar_stream import BrokenTar, TarStream
from integrity.copies.versions import CopyVersion
from integrity.errors import ConfigError, CopyUnreachable, Unreadable, Unstable, Vanished, show_path
from integrity.model import RootIdentity

T = TypeVar("T")

_PIECE_BYTES = 1 << 20
_FAILURES_IN_A_ROW = 20
_LINKED = 20_000  # files whose digest is kept for hard links to them
_SHOWN = 5  # folders or machines that a message names


class ArchiveCopy(BaseCopy):
    """
    A repository as a copy; see ``Copy``.

    Args:
        url: as given.
        root: absolute path of the folder that is backed up; empty: not known.
        options: of the configuration.

    Attributes:
        kind: of repository.
    """

    kind: ClassVar[type[Repository]]
    keeps_times = True
    reads_all_at_once = True

    def __init__(self, url: str, *, root: bytes = b"", options: ArchiveOptions | None = None) -> None:
        scheme, _, address = url.partition(":")
        if address and is_local(address):
            address = os.path.abspath(address)
        shown = hide_secrets(f"{scheme}:{address}")
        super().__init__(shown, shown)
        self._options = options or ArchiveOptions()
        self._repository = self.kind(shown, address, self._options)
        self._root = root
        self._backups: Sequence[Backup] = ()
        self._version = CopyVersion("", 0)
        self._tops: dict[str, bytes | None] = {}
        self._begun: tuple[CopyVersion, bytes, Item, Generator[Item]] | None = None

    def interrupt_when(self, must_stop: Callable[[], bool], /) -> None:
        """See ``Copy``."""
        self._repository.must_stop = must_stop

    def __enter__(self) -> Self:
        """Find the backups of the folder; see ``Copy``."""
        repository = self._repository
        try:
            repository.user = repository.find_owner()
            self._backups = self._find_backups()
            self._version = self._find_newest()
        except BaseException:
            repository.cleanup.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Remove what the program needed; see ``Copy``."""
        if self._begun is not None:
            self._begun[-1].close()
        self._repository.cleanup.close()

    def versions(self) -> Iterator[CopyVersion]:
        """Yield the backups of the folder, the newest first; see ``Copy``."""
        for backup in self._backups:
            if self._names_folder(backup) or self._find_top(backup.version) is not None:
                yield backup.version

    def is_reading(self, version: CopyVersion) -> bool:
        """Return whether a backup says that it is of the folder under its own path, on this machine; see ``Copy``."""
        backup = next(one for one in self._backups if one.version == version)
        absolute = self._root.strip(b"/")
        if backup.host != socket.gethostname():
            return False
        if not backup.folders:
            return self._find_top(version) == absolute
        return any(is_below(absolute, folder.strip(b"/")) for folder in backup.folders)

    def identity(self) -> RootIdentity | None:
        """Identify the folder of a local repository; None for others, and where only its owner may look."""
        if not self._repository.is_local:
            return None
        try:
            return identify_folder(os.fsencode(self._repository.address))
        except CopyUnreachable:
            return None  # the program can reach it, as another user

    def choose(self, version: CopyVersion) -> None:
        """Be another backup from now on; see ``Copy``."""
        self._version = version

    def find_name_fault(self, path: bytes, /) -> str | None:
        """Return why the program does not print the name of a file of this path; see ``Copy``."""
        try:
            path.decode("utf-8")
        except UnicodeDecodeError:
            return f"is not UTF-8, which {self._repository.name} does not print as it is"
        return None

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """List what the backup's index states; see ``Copy``."""
        for _, found in self._find_files(prefix):
            if found is not None:
                yield found

    def read_all(self, prefix: bytes = b"", without: Collection[bytes] = ()) -> Iterator[CopyEntry | Trouble]:
        """List with digests of what is stored; see ``Copy``."""
        above = {b""} if without else set[bytes]()  # of these no stream is of use: it would have what is left out
        for folder in without:
            while folder not in above:
                above.add(folder)
                folder = folder.rpartition(b"/")[0]
        with closing(_Stream(self._repository, self._version)) as stream:
            if not prefix and not above:
                stream.enter(self._guess_top(self._version))  # beside the listing: both programs take as long to start
            for item, found in self._find_files(prefix):
                if not prefix and not self._top and not above:
                    stream.enter(b"")  # it is all of the backup, which is not listed as a folder
                if item is not None and item.is_folder and _cut(item.path, self._top) not in above:
                    stream.enter(item.path)
                elif isinstance(found, CopyEntry) and found.path.rpartition(b"/")[0] in without:
                    yield found
                elif item is not None and isinstance(found, CopyEntry):
                    yield stream.read(item, found)
                elif found is not None:
                    yield found

    def open(self, path: bytes) -> ArchiveFile:
        """Open one file; see ``Copy``."""
        require_harmless(path)
        fault = self.find_name_fault(path)
        if fault is not None:
            raise Unreadable(f"cannot open {show_path(path)}: its name {fault}", errno=0)
        item = self._look_up(path)
        version = self._version
        if item is None or item.size_bytes is None:
            raise Vanished(f"cannot open {show_path(path)}: no such file in {self.shown}, {version.name}")
        place = item.link_to or item.path
        return ArchiveFile(path, item.size_bytes, lambda: self._repository.start_file(version, place))

    def look_at(self, path: bytes) -> CopyEntry | None:
        """Return the entry of one file in the chosen backup; see ``Copy``."""
        item = self._look_up(path)
        return None if item is None else CopyEntry(path, item.size_bytes, item.mtime_ns)

    def find_changes(self, older: CopyVersion, newer: CopyVersion, prefix: bytes = b"") -> Iterator[bytes]:
        """Yield the files of both backups whose content may differ; see ``Copy``."""
        repository = self._repository
        top = self._find_top(older)
        if top is None or top != self._find_top(newer):  # it was moved in between: no program can compare the two
            self.choose(newer)
            yield from (one.path for one in self.list(prefix) if isinstance(one, CopyEntry))
            return
        place = _join(top, prefix)
        with repository.start_diff(older, newer, place) as running:
            for line in running.lines():
                path = self._parse(repository.read_change, line)
                if path is not None and is_below(path, place):
                    yield _cut(path, top)
            if running.wait() not in repository.ended_well:
                raise repository.failed(running.reason())

    def _find_backups(self) -> Sequence[Backup]:
        """Find the backups by one machine that may be of the folder, the newest first."""
        repository, options = self._repository, self._options
        backups = repository.find_backups()
        if not backups:
            raise repository.failed("has no backups yet")
        covering = [one for one in backups if not one.folders or self._names_folder(one)]
        if not covering and not options.path:
            folders = sorted({show_path(folder) for one in backups for folder in one.folders})
            of = ", ".join(folders[:_SHOWN])
            many = f"its {len(backups):,} backups are of {of}, none of them of all of"
            raise ConfigError(self._tell_path(many if len(backups) > 1 else f"its only backup is of {of}, not all of"))
        covering = covering or backups
        hosts = {one.host for one in covering}
        here = socket.gethostname()
        host = options.host or (here if here in hosts else "")
        if not host and len(hosts) > 1:
            raise ConfigError(
                f"{self.shown}: has backups of several machines ({', '.join(sorted(hosts)[:_SHOWN])}):"
                ' set "host" of the [[copy]] to one of them'
            )
        made = [one for one in covering if not host or one.host == host]
        if not made:
            have = ", ".join(sorted(hosts)[:_SHOWN])
            raise ConfigError(f"{self.shown}: has no backup of the machine {host}; there are some of {have}")
        return sorted(made, key=lambda one: one.version.taken_at)[::-1]  # of one second: the last one first

    @property
    def _top(self) -> bytes:
        """Where the folder is in the chosen backup; it has been listed."""
        top = self._tops[self._version.name]
        assert top is not None
        return top

    def _names_folder(self, backup: Backup) -> bool:
        """Return whether a backup is of the folder, by the folders that it names."""
        wanted = (self._options.path or self._root).strip(b"/")
        return any(is_below(wanted, folder.strip(b"/")) for folder in backup.folders)

    def _find_top(self, version: CopyVersion) -> bytes | None:
        """Find where the folder is in a backup: under its absolute path, or under the end of it, by what is there."""
        if version.name not in self._tops:
            likely = self._guess_top(version)
            first, items = self._begin(version, likely)
            if first is not None:
                self._begun = version, likely, first, items
            self._tops[version.name] = self._search_top(version) if first is None else likely
        return self._tops[version.name]

    def _begin(self, version: CopyVersion, place: bytes) -> tuple[Item | None, Generator[Item]]:
        """Return the first of what lies at and below a path, and the rest; go on with what ``_find_top`` has begun."""
        begun, self._begun = self._begun, None
        if begun is not None:
            if begun[:2] == (version, place):
                return begun[2:]
            begun[-1].close()
        items = self._items(version, place)
        return next(items, None), items

    def _guess_top(self, version: CopyVersion) -> bytes:
        """Return where the folder is if that is known, or else where it is in another backup, or else its path."""
        known = self._tops.get(version.name)
        wanted = (self._options.path or self._root).strip(b"/")
        return next((top for top in (known, *reversed(self._tops.values())) if top is not None), wanted)

    def _search_top(self, version: CopyVersion) -> bytes | None:
        absolute = (self._options.path or self._root).strip(b"/")
        if self._options.path:
            return None
        tops = [absolute[at + 1 :] for at, byte in enumerate(absolute) if byte == ord("/")]
        folders = next(one.folders for one in self._backups if one.version == version)
        found, is_inside = len(tops), absolute in [folder.strip(b"/") for folder in folders]
        for item in self._items(version, b""):
            is_inside = is_inside or item.path == b"."  # it was made from within the folder
            found = next((rank for rank, top in enumerate(tops[:found]) if is_below(item.path, top)), found)
        return tops[found] if found < len(tops) else b"" if is_inside else None

    def _find_newest(self) -> CopyVersion:
        newest = next(self.versions(), None)
        if newest is None:
            count = len(self._backups)
            which = "its only backup" if count == 1 else f"none of its {count:,} backups"
            raise CopyUnreachable(self._tell_path(f"{which} has {'no' if count == 1 else 'a'} folder"))
        return newest

    def _tell_path(self, what: str) -> str:
        """Return the message that the folder is not where it is looked for."""
        wanted = show_path(self._options.path or self._root)
        return (
            f'{self.shown}: {what} {wanted}; set "path" of the [[copy]] to where the folder is in the backups,'
            ' or to "/" if they were made from within it'
        )

    def _find_below(self, version: CopyVersion, path: bytes) -> Iterator[Item]:
        """List what lies at and below a path of the folder; with one run if that is where it is thought to be."""
        likely = self._guess_top(version)
        first, items = self._begin(version, _join(likely, path))
        if first is not None:
            self._tops[version.name] = likely
        elif (top := self._find_top(version)) is None:
            raise CopyUnreachable(self._tell_path(f"the backup {version.name} has no folder"))
        elif top != likely:
            first, items = self._begin(version, _join(top, path))
        if first is not None:
            yield first
            yield from items

    def _parse(self, read: Callable[[bytes], T | None], line: bytes) -> T | None:
        try:
            return read(line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            said = f"a line that {self._repository.name} printed can't be understood ({error})"
            raise self._repository.failed(said) from error

    def _items(self, version: CopyVersion, place: bytes) -> Generator[Item]:
        repository = self._repository
        with repository.start_listing(version, place) as running:
            for line in running.lines():
                item = self._parse(repository.read_item, line)
                if item is not None and is_below(item.path, place):
                    yield item
            if running.wait() not in repository.ended_well:
                raise repository.failed(running.reason())

    def _find_files(self, prefix: bytes) -> Iterator[tuple[Item | None, CopyEntry | Trouble | None]]:
        """Yield what lies at and below a path, with the entries of files."""
        fault = (find_fault(prefix) or self.find_name_fault(prefix)) if prefix else None
        if fault is not None:
            yield None, Trouble(prefix, fault)
            return
        is_empty = True
        for item in self._find_below(self._version, prefix):
            is_empty = is_empty and not item.is_file
            yield item, self._translate(item)
        if is_empty and not prefix:
            raise self._repository.failed(f"the backup {self._version.name} has no files in it")

    def _look_up(self, path: bytes) -> Item | None:
        """Find one file; of a hard link, with the size of the file that it is a link to."""
        found = next(self._find_below(self._version, path), None)
        if found is None or not found.is_file or found.path != _join(self._top, path):
            return None
        if found.size_bytes is None:
            source = found.link_to
            sizes = (one.size_bytes for one in self._items(self._version, source) if one.path == source)
            return found._replace(size_bytes=next(sizes, None))
        return found

    def _translate(self, item: Item) -> CopyEntry | Trouble | None:
        """Return the entry of an object; None if it is no file."""
        path = _cut(item.path, self._top)
        if not item.is_file or not path:
            return None
        fault = find_fault(path)
        if fault is not None:
            return Trouble(path, fault)
        if item.is_lossy and not os.path.lexists(os.path.join(self._root, path)):
            return Trouble(path, f"is not its name: {self._repository.name} does not print all characters of it")
        return CopyEntry(path, item.size_bytes, item.mtime_ns)


class _Stream:
    """
    The bytes of the files of a listing, in its order.

    One run of the program writes as many as possible. Where it fails it ends; that file is then read alone, and so are
    those beside it; the next folder is a stream again. A run that starts anew finds what a clean-up put elsewhere.
    """

    def __init__(self, repository: Repository, version: CopyVersion) -> None:
        self._repository = repository
        self._version = version
        self._running: Running | None = None
        self._tar: TarStream | None = None
        self._folder = b""
        self._failures = 0
        self._linked = OrderedDict[bytes, tuple[int, bytes]]()

    def close(self) -> None:
        """End the program."""
        self._tar = None
        if self._running is not None:
            self._running.close()
            self._running = None

    def enter(self, folder: bytes) -> None:
        """Begin to stream a folder, unless one above it is."""
        if self._tar is not None and is_below(folder, self._folder):
            return
        self.close()
        self._folder = folder
        self._running = self._repository.start_tar(self._version, folder)
        self._tar = TarStream(self._running.read)

    def read(self, item: Item, entry: CopyEntry) -> CopyEntry | Trouble:
        """Return the entry of the next file, with its digest."""
        found: tuple[int, bytes] | str | None = None
        # A folder's archive has what is below it; what is no folder is written as it is, and may be any archive.
        if self._tar is not None and item.path != self._folder and is_below(item.path, self._folder):
            found = self._read_member(self._tar, item)
        if found is None:
            found = self._read_alone(item, entry)
        if isinstance(found, str):
            return Trouble(entry.path, found)
        self._linked[item.path] = found
        if len(self._linked) > _LINKED:
            self._linked.popitem(last=False)
        size, digest = found
        return CopyEntry(entry.path, size, entry.mtime_ns, (Published(Kind.XXH3_128, digest),))

    def _read_member(self, tar: TarStream, item: Item) -> tuple[int, bytes] | None:
        """Return size and digest of a file from the stream; None if it can't be had from there."""
        try:
            while (member := tar.next()) is not None:
                if member.path.strip(b"/") != item.path:
                    continue
                if member.link_to:
                    return self._linked.get(member.link_to.strip(b"/"))
                if not member.is_file:
                    break
                self._failures = 0
                return _digest(tar.read)
        except BrokenTar:
            pass  # it is read alone, which tells why
        self.close()
        return None

    def _read_alone(self, item: Item, entry: CopyEntry) -> tuple[int, bytes] | str:
        """Return size and digest of a file, or why it can't be read."""
        repository = self._repository
        with repository.start_file(self._version, item.link_to or item.path) as running:
            found = _digest(running.read)
            is_whole = running.wait() == 0 and entry.size_bytes in (None, found[0])
            reason = "" if is_whole else running.reason()
        if is_whole:
            self._failures = 0
            return found
        self._failures += 1
        if self._failures == _FAILURES_IN_A_ROW:
            raise repository.failed(f"{self._failures} files in a row could not be read: {reason}")
        return f"{repository.name} can't read it: {repository.hide(reason)}"


def _digest(read: Callable[[int], bytes]) -> tuple[int, bytes]:
    hasher, size = xxh3_128(), 0
    while piece := read(_PIECE_BYTES):
        hasher.update(piece)
        size += len(piece)
    return size, hasher.digest()


class ArchiveFile:
    """
    One file of a backup; see ``CopyFile``.

    Reading on streams from one run of the program; going back starts another one.

    Args:
        start: starts writing the whole file.
    """

    def __init__(self, path: bytes, size_bytes: int, start: Callable[[], Running]) -> None:
        self.size_bytes = size_bytes
        self.stat: os.stat_result | None = None
        self._path = path
        self._start = start
        self._running: Running | None = None
        self._position = 0

    def read(self, offset: int, length: int) -> bytes:
        """Read from any offset; see ``CopyFile``."""
        end = min(offset + length, self.size_bytes)
        if end <= offset:
            return b""
        if self._running is None or offset < self._position:
            self.close()
            self._running, self._position = self._start(), 0
        while self._position < offset:
            self._take(self._running, min(_PIECE_BYTES, offset - self._position))
        parts: list[bytes] = []
        while self._position < end:
            parts.append(self._take(self._running, end - self._position))
        return b"".join(parts)

    def close(self) -> None:
        """End the program; may be called twice."""
        if self._running is not None:
            self._running.close()
            self._running = None

    def _take(self, running: Running, length: int) -> bytes:
        part = running.read(length)
        if part:
            self._position += len(part)
            return part
        name, path = running.program.name, show_path(self._path)
        is_whole = running.wait() == 0
        reason = hide_secrets(running.reason())
        self.close()
        if is_whole:
            raise Unstable(f"{path} ended before its size; try again")
        raise Unreadable(f"cannot read {path}: {name}: {reason}; try again", errno=errno.EIO)


def _join(top: bytes, path: bytes) -> bytes:
    return b"/".join(part for part in (top, path) if part)


def _cut(path: bytes, top: bytes) -> bytes:
    return path[len(top) :].lstrip(b"/")
