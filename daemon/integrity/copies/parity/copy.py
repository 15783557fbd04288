"""
Parity sets as a copy: each file of a set can be had as it was when the set was made, if not too much is damaged.

Opening a file heals its set in a folder of links under the names that the set knows: links of the files that are left,
wherever these are by now. ``par2`` puts each healed file in the place of its link.

I1  Nothing is written outside of the folder of links, which is removed when another set or the copy is left.
"""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from stat import S_ISREG
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from integrity.catalog.files import find_file
from integrity.catalog.parity import ParityFile, ParitySet, find_covers, find_files, find_sets
from integrity.config.copy_urls import PARITY
from integrity.copies.base import BaseCopy
from integrity.copies.filenames import is_below, require_harmless
from integrity.copies.parity.packets import ODD_NAME, SetContents, read_set
from integrity.copies.parity.program import Par2
from integrity.copies.protocol import CopyEntry, Kind, Published, Trouble
from integrity.errors import CopyUnreachable, Unreadable, Vanished, show_path
from integrity.files.span import UNLIMITED
from integrity.paths import absolute
from integrity.units import format_size

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.catalog.roots import RootRecord

_PAGE_BYTES = 4096
_BLOCK_BYTES = 1 << 20
_HEALING = b".healing-"


class Mender(NamedTuple):
    """
    Blocks of a file from elsewhere.

    Attributes:
        mend: gets the number of a block and what the damaged file has there; returns the good block if it is known.
    """

    block_size_bytes: int
    mend: Callable[[int, bytes], bytes]


class ParityCopy(BaseCopy):
    """
    The parity sets of a root as a copy; see ``Copy``.

    Args:
        catalog: of the calling thread.
        root: as recorded.
    """

    nothing_stated = "it has parity, not the file"

    def __init__(self, catalog: Catalog, root: RootRecord) -> None:
        super().__init__(f"{PARITY}:", PARITY)
        self._catalog = catalog
        self._root = root
        self._must_stop: Callable[[], bool] = lambda: False
        self._healing: _Healing | None = None

    def interrupt_when(self, must_stop: Callable[[], bool], /) -> None:
        """See ``Copy``."""
        self._must_stop = must_stop

    def __enter__(self) -> Self:
        """Find the sets; see ``Copy``."""
        with self._catalog.read() as connection:
            paths = [one.set.path for one in find_sets(connection, self._root.id)]
        if not any(map(os.path.exists, paths)):
            folder = f" in {show_path(os.path.dirname(paths[0]))}" if paths else ""
            raise CopyUnreachable(f"{self.shown}: there is no parity set{folder}; mount its disk")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Remove what was healed."""
        self._leave()

    def find_name_fault(self, path: bytes, /) -> str | None:
        """Return why par2 can't restore a file under this path; see ``Copy``."""
        return "is one that par2 does not write as it is" if ODD_NAME.search(path) else None

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """List the files that sets have as they were recorded; see ``Copy``."""
        with self._catalog.read() as connection:
            sets = [one.set.id for one in find_sets(connection, self._root.id)]
        for set_id in sets:
            with self._catalog.read() as connection:
                found = find_files(connection, set_id)
            for one in found:
                if one.path is not None and is_below(one.path, prefix):
                    yield CopyEntry(one.path, one.size_bytes, None, (Published(Kind.MD5, one.md5),))

    def open(self, path: bytes) -> HealedFile:
        """Open a file as it was recorded, healed if it is damaged; see ``Copy``."""
        return self.heal(path)

    def heal(self, path: bytes, mender: Mender | None = None) -> HealedFile:
        """
        Open a file as ``open`` does.

        Args:
            path: relative to the root.
            mender: has blocks of this file that are good elsewhere, so that parity is needed for the others only.

        Raises:
            ReadError: no set has it, or too much of the set is damaged.
        """
        require_harmless(path)
        with self._catalog.read() as connection:
            record = find_file(connection, self._root.id, path)
            covers = [] if record is None else find_covers(connection, record.id)
        if record is None or not covers:
            raise Vanished(f"cannot open {show_path(path)}: no parity set has it as it was recorded")
        for cover in covers[:-1]:
            with suppress(Unreadable):
                return self._heal(cover, path, mender)
        return self._heal(covers[-1], path, mender)

    def _heal(self, cover: ParitySet, path: bytes, mender: Mender | None) -> HealedFile:
        if self._healing is None or self._healing.cover.id != cover.id:
            self._leave()
            with self._catalog.read() as connection:
                files = find_files(connection, cover.id)
            self._healing = _Healing(cover, files, self._root.path, self._must_stop)
        return self._healing.open(path, mender)

    def _leave(self) -> None:
        if self._healing is not None:
            self._healing.close()
            self._healing = None


class _Healing:
    """
    One set in its folder of links.

    Raises:
        Unreadable: the set can't be used.
    """

    def __init__(self, cover: ParitySet, files: list[ParityFile], root: bytes, must_stop: Callable[[], bool]) -> None:
        self.cover = cover
        self._par2 = Par2(show_path(cover.path), must_stop, UNLIMITED)
        self._root = root
        self._trouble: str | None = None  # why healing it failed
        self._has_run = False
        self._contents = self._read()
        self._files = {one.path: one for one in files if one.path is not None}
        self._names = self._find_names(files)
        self._cleanup = ExitStack()
        self._folder = self._make_folder()
        try:
            self._link_all()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the folder."""
        self._cleanup.close()

    def open(self, path: bytes, mender: Mender | None) -> HealedFile:
        """Heal the set if that was not done, and open a file of it."""
        known = self._files[path]
        name = next(name for name, of in self._names.items() if of.md5 == known.md5)
        if not self._has_run:
            self._run()
        if self._trouble is not None and mender is not None:
            assert known.path is not None
            if self._copy(absolute(self._root, known.path), self._place(name), known.size_bytes, mender):
                self._run()
        if self._trouble is not None:
            raise Unreadable(f"cannot open {show_path(path)}: {self._trouble}", errno=0)
        return HealedFile(self._place(name), known)

    def _read(self) -> SetContents:
        try:
            with open(self.cover.path, "rb") as file:
                contents = read_set(file)
        except OSError as error:
            raise Unreadable(
                f"cannot read the parity set {show_path(self.cover.path)}: {error.strerror}; mount its disk",
                errno=error.errno or 0,
            ) from error
        if not contents.files:
            raise Unreadable(f"the parity set {show_path(self.cover.path)} is damaged itself", errno=0)
        return contents

    def _find_names(self, files: list[ParityFile]) -> dict[bytes, ParityFile]:
        """Return the file of each name in the set: that of its content, which may have another name by now."""
        same_content = defaultdict[bytes, list[ParityFile]](list)
        for file in files:
            same_content[file.md5].append(file)
        found = {}
        for one in self._contents.files:
            same = same_content.get(one.md5)
            if same:  # of files with the same content the own one, if it still has its name
                own = next((index for index, known in enumerate(same) if known.path == one.name), 0)
                found[one.name] = same.pop(own) if len(same) > 1 else same[0]
        return found

    def _make_folder(self) -> bytes:
        """Make the folder of links where more is free: beside the set, or in the folder for temporary files."""
        places = [os.path.dirname(self.cover.path), os.fsencode(tempfile.gettempdir())]
        places.sort(key=lambda place: shutil.disk_usage(place).free if os.access(place, os.W_OK) else -1)
        for place in places:
            clear_healing(place)
        try:
            made = tempfile.mkdtemp(prefix=_HEALING, dir=places[-1])
            lock = os.open(made, os.O_RDONLY)
            self._cleanup.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)  # says until this process ends, however it does, that it is in use
        except OSError as error:
            raise Unreadable(
                f"cannot write in {show_path(places[-1])} to heal files there: {error.strerror}", errno=error.errno or 0
            ) from error
        self._cleanup.callback(shutil.rmtree, made, ignore_errors=True)
        return made

    def _place(self, name: bytes) -> bytes:
        return os.path.join(self._folder, name)

    def _link_all(self) -> None:
        for one in self._contents.files:
            place = self._place(one.name)
            with _explain_writing(place):
                os.makedirs(os.path.dirname(place), exist_ok=True)
            known = self._names.get(one.name)
            path = absolute(self._root, one.name if known is None or known.path is None else known.path)
            with suppress(OSError):  # it is missing, or its disk fails
                if S_ISREG(os.lstat(path).st_mode):
                    os.symlink(path, place)

    def _run(self) -> None:
        result = self._par2.repair(self._folder, self.cover.path)
        if not (result.is_whole or result.missing_slices) and self._replace_unreadable():
            result = self._par2.repair(self._folder, self.cover.path)
        self._has_run = True
        self._trouble = None
        if result.missing_slices:
            size = format_size(result.missing_slices * self.cover.slice_bytes)
            self._trouble = f"too much is damaged for its parity: {size} more of its files must be good to heal it"
        elif not result.is_whole:
            self._trouble = f"par2 could not heal it: {result.reason}"
            free = shutil.disk_usage(self._folder).free
            if free < sum(one.size_bytes for one in self._contents.files):
                place = show_path(os.path.dirname(self._folder))
                self._trouble += (
                    f"; perhaps for want of room: only {format_size(free)} are free in {place}; set TMPDIR to a folder"
                    " with more"
                )

    def _replace_unreadable(self) -> bool:
        """Put what can be read of files that a disk refuses, which ends par2, in the place of their links."""
        found = False
        for one in self._contents.files:
            place = self._place(one.name)
            if os.path.islink(place) and not _can_read(place, one.size_bytes):
                self._copy(os.path.realpath(place), place, one.size_bytes, Mender(_BLOCK_BYTES, lambda _, data: data))
                found = True
        return found

    def _copy(self, path: bytes, place: bytes, size_bytes: int, mender: Mender) -> bool:
        """Put the good blocks of a file in the place of its link; return whether there are more than it has itself."""
        block_bytes, is_better = mender.block_size_bytes, False
        with _explain_writing(place):
            fd, made = tempfile.mkstemp(dir=self._folder)
        with _Readable(path) as source, _explain_writing(place), open(fd, "wb") as target:
            for index in range(-(-size_bytes // block_bytes)):
                found = source.read(index * block_bytes, min(block_bytes, size_bytes - index * block_bytes))
                best = mender.mend(index, found)
                is_better |= best != found
                target.seek(index * block_bytes)
                target.write(best)
            target.truncate(size_bytes)
        os.replace(made, place)
        return is_better


def clear_healing(place: bytes) -> None:
    """Remove the folders of links that killed processes of this user have left in a folder."""
    for path in glob.glob(os.path.join(glob.escape(place), _HEALING + b"*")):
        with suppress(OSError), ExitStack() as opened:  # another user's, or no folder: it is not ours to remove
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            opened.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its process goes on
            if os.fstat(lock).st_uid == os.geteuid():
                shutil.rmtree(path)


def _can_read(path: bytes, size_bytes: int) -> bool:
    with _Readable(path) as source:
        for offset in range(0, size_bytes, _BLOCK_BYTES):
            source.read(offset, _BLOCK_BYTES)
        return not source.has_failed


class _Readable:
    """A file as far as it can be read: zeros in the place of what can't be, nothing if it can't be opened."""

    def __init__(self, path: bytes) -> None:
        self.has_failed = False
        self._fd = -1
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            self.has_failed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.close(self._fd)

    def read(self, offset: int, length: int) -> bytes:
        """Return what can be read; less behind the end of the file."""
        if self._fd < 0:
            return b""
        try:
            return os.pread(self._fd, length, offset)
        except OSError:
            self.has_failed = True
        if length <= _PAGE_BYTES:
            return bytes(length)
        pages = range(offset, offset + length, _PAGE_BYTES)
        return b"".join(self.read(at, min(_PAGE_BYTES, offset + length - at)) for at in pages)


@contextmanager
def _explain_writing(path: bytes) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unreadable(f"cannot write {show_path(path)}: {error.strerror}", errno=error.errno or 0) from error


class HealedFile:
    """A file that was healed; see ``CopyFile``. Its stat has owner and permissions of the original."""

    def __init__(self, place: bytes, known: ParityFile) -> None:
        try:
            self._fd = os.open(place, os.O_RDONLY)
        except OSError as error:
            raise Unreadable(f"cannot open {show_path(place)}: {error.strerror}", errno=error.errno or 0) from error
        self.size_bytes = known.size_bytes
        self.stat = os.stat_result((known.mode, 0, 0, 1, known.uid, known.gid, known.size_bytes, 0, 0, 0))

    def read(self, offset: int, length: int) -> bytes:
        """Read from any offset; see ``CopyFile``."""
        try:
            return os.pread(self._fd, length, offset)
        except OSError as error:
            raise Unreadable(f"cannot read what was healed: {error.strerror}", errno=error.errno or 0) from error

    def close(self) -> None:
        """Close the file; may be called twice."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
