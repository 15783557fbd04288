"""
Fetch good blocks from copies: each block from the first copy that has it, verified before it is returned.

A copy that can't be reached is reported once and left out. A copy with one bad block may still have others good.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from integrity.config.copy_urls import keeps_versions
from integrity.copies.parity.copy import Mender, ParityCopy
from integrity.copies.spans import find_spans
from integrity.errors import ConfigError, CopyUnreachable, ReadError, ReadInterrupted, Unreadable, Vanished
from integrity.files.open_beneath import stat_beneath
from integrity.hashing.digests import want_to_record
from integrity.jobs.compare.read_back import read_from_copy
from integrity.jobs.compare.source import CopySource, find_record, place_in_copy, require_disk
from integrity.jobs.parity.source import ParitySource
from integrity.jobs.targets import is_inside

if TYPE_CHECKING:
    from integrity.copies.protocol import Copy, CopyFile
    from integrity.copies.versions import CopyVersion
    from integrity.jobs.context import RootRun
    from integrity.jobs.repair.inspect import Expected
    from integrity.model import Reading


class OtherFile(NamedTuple):
    """Where else than under its name in the newest version a copy may have a file."""

    version: CopyVersion | None
    place: bytes


class GoodCopy:
    """
    One copy, entered on first use.

    Attributes:
        name: of the copy.
        trouble: why it can't be reached; None while it can.
    """

    def __init__(
        self, source: CopySource, stack: ExitStack, warn: Callable[[str], None], must_stop: Callable[[], bool]
    ) -> None:
        self.source = source
        self.name = source.recorded_name
        self.trouble: str | None = None
        self._stack = stack
        self._warn = warn
        self._must_stop = must_stop
        self._copy: Copy | None = None
        self._newest: CopyVersion | None = None

    @property
    def is_parity(self) -> bool:
        """Return whether it is the parity of the files, not another file."""
        return isinstance(self.source, ParitySource)

    def covers(self, path: bytes) -> bool:
        """Return whether the copy should contain a file of this absolute path."""
        return is_inside(path, self.source.base.rstrip(b"/"))

    def open(self, path: bytes, mender: Mender) -> CopyFile:
        """
        Open the copy of a file with this absolute path; parity gets what other copies have of it.

        Raises:
            ReadError: the copy of the file can't be opened; ReadInterrupted if the run was stopped.
            CopyUnreachable: the copy can't be reached.
        """
        copy = self._enter()
        if not copy.has_bytes:
            raise Vanished("it has checksums only, no data")
        place = place_in_copy(self.source, path)
        return copy.heal(place, mender) if isinstance(copy, ParityCopy) else copy.open(place)

    def find_others(self, path: bytes, other_names: Iterable[bytes]) -> Iterator[OtherFile]:
        """
        Yield where else the copy may have a file with this absolute path, each when it is asked for.

        First under the other names of the file, absolute, too; then in older versions, each content once, the newest
        first.

        Raises:
            CopyUnreachable: the copy can't be reached.
        """
        copy = self._enter()
        places = [place_in_copy(self.source, name) for name in (path, *filter(self.covers, other_names))]
        yield from (OtherFile(self._newest, place) for place in places[1:] if copy.has_bytes)
        for span in find_spans(copy, places) if keeps_versions(self.source.url) else ():
            if span.versions[-1] != self._newest and (span.entry is not None or span.trouble):
                yield OtherFile(span.versions[-1], places[0] if span.entry is None else span.entry.path)

    def open_other(self, other: OtherFile) -> CopyFile:
        """
        Open what ``find_others`` found; it may not be there.

        Raises:
            ReadError: it can't be opened, or its version can't be looked at.
            CopyUnreachable: the copy can't be reached.
        """
        copy = self._enter()
        if other.version is None or other.version == self._newest:
            return copy.open(other.place)
        try:
            copy.choose(other.version)
            return copy.open(other.place)
        except CopyUnreachable as error:
            raise Unreadable(f"the version {other.version.name} can't be looked at: {error}", errno=0) from error

    def read(self, run: RootRun, path: bytes) -> Reading:
        """
        Read the whole copy of a file with this absolute path, for a decision about this copy.

        Raises:
            ReadError: it can't be read; ReadInterrupted if the run was stopped.
            CopyUnreachable: the copy can't be reached, or another disk is there.
        """
        copy = self._enter()
        if not copy.has_bytes:
            raise Vanished("it has checksums only, no data")
        record = find_record(run.catalog, self.name, path)
        if record is not None:
            require_disk(record, copy)
        want = want_to_record(blake3="blake3" in run.settings.digests)
        block_bytes, stop = run.settings.block_size_bytes, run.context.stop
        place = place_in_copy(self.source, path)
        return read_from_copy(copy, place, block_bytes, pace=run.pace, stop=stop, want=want)

    def find_mode(self, path: bytes) -> int | None:
        """Tell the permission bits of the copy of a file or folder; None where copies of this kind do not tell."""
        folder = None if self._copy is None else self._copy.folder
        if folder is None:
            return None
        try:
            return stat_beneath(folder.root_fd, place_in_copy(self.source, path)).st_mode & 0o777
        except OSError:
            return None

    def lost(self, error: CopyUnreachable | ConfigError) -> None:
        """Mark the copy as unreachable and warn, once."""
        if self.trouble is None:
            self.trouble = str(error)
            self._warn(f"the copy {self.name} can't be reached: {error}")

    def _enter(self) -> Copy:
        if self.trouble is not None:
            raise CopyUnreachable(self.trouble)
        if self._copy is None:
            try:
                self._copy = self._stack.enter_context(self.source.open(must_stop=self._must_stop))
                self._newest = next(self._copy.versions(), None)
                if self.source.disk is not None:
                    require_disk(self.source.disk, self._copy)
            except (CopyUnreachable, ConfigError) as error:
                self.lost(error)
                raise CopyUnreachable(str(error)) from error
        if self._newest is not None:
            self._copy.choose(self._newest)
        return self._copy


class GoodBlocks:
    """
    The copies that may supply blocks; a context manager.

    Args:
        sources: in order of preference.
        warn: receives a message for each copy that can't be reached.
        must_stop: returns whether all waiting must end with ReadInterrupted.
    """

    def __init__(
        self, sources: Sequence[CopySource], warn: Callable[[str], None], must_stop: Callable[[], bool]
    ) -> None:
        self._stack = ExitStack()
        self._all = {source: GoodCopy(source, self._stack, warn, must_stop) for source in sources}

    def for_file(self, path: bytes, sources: Sequence[CopySource], other_names: Iterable[bytes] = ()) -> BlockSource:
        """
        Return the block source for the file of this absolute path; the caller closes it.

        ``other_names`` are absolute paths under which copies may have it.
        """
        copies = [self._all[source] for source in sources if self._all[source].covers(path)]
        return BlockSource(copies, path, tuple(other_names))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._stack.__exit__(kind, error, trace)


class BlockSource:
    """
    The copies of one file; a context manager.

    Attributes:
        troubles: by name of a copy, why it could not be read. Copies that returned wrong bytes have no entry.
    """

    def __init__(self, copies: Sequence[GoodCopy], path: bytes, other_names: Sequence[bytes] = ()) -> None:
        self._copies = list(copies)
        self._path = path
        self._other_names = other_names
        self._files: dict[str, CopyFile] = {}
        self._others: dict[str, Iterator[OtherFile]] = {}
        self._kept: dict[str, CopyFile] = {}  # of these, the one that was read last
        self._closed: set[str] = set()  # could not be opened; not retried for every block
        self.troubles: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the copies."""
        return tuple(copy.name for copy in self._copies)

    @property
    def has_unreachable(self) -> bool:
        """Return whether one of the copies could not be reached."""
        return any(copy.trouble is not None for copy in self._copies)

    def fetch(self, index: int, expected: Expected) -> tuple[str, bytes] | None:
        """Return one verified block and the name of its copy; None if no copy has it good."""
        return self._fetch(self._copies, index, expected)

    def _fetch(self, copies: Sequence[GoodCopy], index: int, expected: Expected) -> tuple[str, bytes] | None:
        for copy in copies:
            data = self._read(copy, index, expected)
            if data is not None and expected.matches(index, data):
                return copy.name, data
            for other in self._read_others(copy, index, expected):
                if other is not None and expected.matches(index, other):
                    self.troubles.pop(copy.name, None)
                    return copy.name, other
        return None

    def read(self, run: RootRun) -> Reading:
        """Read the whole file in the only copy; see ``GoodCopy.read``."""
        (copy,) = self._copies
        return copy.read(run, self._path)

    def find_stats(self, names: Iterable[str]) -> list[os.stat_result]:
        """List what stat said of the copies that were read, in the order of their names; other kinds do not tell."""
        files = self._files | self._kept
        stats = (files[name].stat for name in names if name in files)
        return [stat for stat in stats if stat is not None]

    def find_own_stat(self) -> os.stat_result | None:
        """Return the stat that the file itself had, if parity supplied blocks; None if it did not."""
        stats = (self._files[one.name].stat for one in self._copies if one.is_parity and one.name in self._files)
        return next(stats, None)

    def find_mode(self, name: str, path: bytes) -> int | None:
        """Return the permission bits of an absolute path in the named copy; None if unknown."""
        return next((copy.find_mode(path) for copy in self._copies if copy.name == name), None)

    def close(self) -> None:
        """Close the files; the copies stay open."""
        for files in (self._files, self._kept):
            for file in files.values():
                file.close()
            files.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, copy: GoodCopy, index: int, expected: Expected) -> bytes | None:
        if copy.trouble is not None:
            self.troubles[copy.name] = copy.trouble
            return None
        file = self._open(copy, expected)
        if file is None:
            return None
        return self._read_block(copy, file, index, expected)

    def _read_block(self, copy: GoodCopy, file: CopyFile, index: int, expected: Expected) -> bytes | None:
        try:
            return file.read(index * expected.block_size_bytes, expected.length(index))
        except ReadInterrupted:
            raise
        except (ReadError, CopyUnreachable) as error:
            self._note(copy, error)
        return None

    def _note(self, copy: GoodCopy, error: ReadError | CopyUnreachable) -> None:
        """Keep why a copy could not be read."""
        if isinstance(error, CopyUnreachable):
            copy.lost(error)  # some kinds of copy notice only when a file is opened
        self.troubles[copy.name] = str(error)

    def _read_others(self, copy: GoodCopy, index: int, expected: Expected) -> Iterator[bytes | None]:
        """Yield one block of what else the copy has of the file, first of that which was read last."""
        if copy.name in self._kept:
            yield self._read_block(copy, self._kept[copy.name], index, expected)
        others = self._others.setdefault(copy.name, copy.find_others(self._path, self._other_names))
        while copy.trouble is None:
            try:
                if (other := next(others, None)) is None:
                    return
                file = copy.open_other(other)
            except ReadInterrupted:
                raise
            except Vanished:
                continue
            except (ReadError, CopyUnreachable) as error:
                self._note(copy, error)
                continue
            if copy.name in self._kept:
                self._kept[copy.name].close()
            self._kept[copy.name] = file
            yield self._read_block(copy, file, index, expected)

    def _make_mender(self, asking: GoodCopy, expected: Expected) -> Mender:
        """Return what replaces damaged blocks of the file by those of other copies."""
        others = [copy for copy in self._copies if copy is not asking]

        def mend(index: int, data: bytes) -> bytes:
            fetched = None if expected.matches(index, data) else self._fetch(others, index, expected)
            return data if fetched is None else fetched[1]

        return Mender(expected.block_size_bytes, mend)

    def _open(self, copy: GoodCopy, expected: Expected) -> CopyFile | None:
        file = self._files.get(copy.name)
        if file is not None or copy.name in self._closed:
            return file
        try:
            file = self._files[copy.name] = copy.open(self._path, self._make_mender(copy, expected))
        except ReadInterrupted:
            raise
        except (ReadError, CopyUnreachable) as error:
            self._closed.add(copy.name)
            self._note(copy, error)
        return file
