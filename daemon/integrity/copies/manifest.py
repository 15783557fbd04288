"""
A copy that is a file of digests, as written by md5sum, BSD's tools, hashdeep, BagIt, SFV tools and ``integrity sum``.

It has digests and perhaps sizes, no bytes. ``lists`` parses the lines.

I1  Neither the list itself, nor another list beside it, nor what lies beside the payload of a bag is missing in it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from stat import S_ISREG
from typing import BinaryIO, Self

from integrity.copies.base import BaseCopy
from integrity.copies.filenames import find_fault, is_below
from integrity.copies.protocol import KINDS, CopyEntry, CopyFile, Published, Trouble
from integrity.errors import CopyUnreachable, Unreadable, show_path
from integrity.hashing.stored_digests import Algorithm
from integrity.lists.entries import BadLine, Digests, Form
from integrity.lists.entries import ManifestEntry as Line
from integrity.lists.forms import find_payload
from integrity.lists.reader import Manifest, read_to_entry
from integrity.lists.unnamed import ListAlgorithms

_SAMPLED_PATH_BYTES = 8192  # hundreds of lines are kept, and longer names show nothing that these do not


class ManifestCopy(BaseCopy):
    """
    A file of digests as a copy.

    Consecutive lines of one file are one entry: some tools write a line for each algorithm.

    Args:
        tops: beginnings of names that stand for the copy itself and are removed: the absolute path of the root, or
            ``data`` in a bag that contains the root's files.
        root: absolute path of the folder that the list describes; empty if it is not known.
        wanted: the only algorithms to read; empty for all.
    """

    has_bytes = False
    nothing_stated = "the list has no digest of it whose algorithm is known"

    def __init__(
        self, path: bytes, *, tops: Sequence[bytes] = (), root: bytes = b"", wanted: Sequence[Algorithm] = ()
    ) -> None:
        super().__init__(os.fsdecode(path), show_path(path))
        self._path = path
        self._tops = tuple(top.rstrip(b"/") + b"/" for top in tops)
        self._root = root.rstrip(b"/") + b"/"
        self._wanted = tuple(wanted)
        self._algorithms = ListAlgorithms(path, self._wanted)
        self._manifest: Manifest | None = None  # as it was read last
        is_inside = bool(root) and path.startswith(self._root)
        self._place = path[len(self._root) :] if is_inside else os.path.basename(path)

    @property
    def algorithms(self) -> ListAlgorithms:
        """Return the algorithms of its digests."""
        return self._algorithms

    def sample_unnamed(self) -> Sequence[tuple[bytes, Digests]]:
        """Read the list for files that can show its algorithms; see ``Copy``."""
        read = (line for line in self._read() if isinstance(line, Line) and len(line.path) <= _SAMPLED_PATH_BYTES)
        lines = ((self._cut(line.path), line.digests) for line in read if not self._is_own(line))
        return self._algorithms.sample(lines, lambda line: line[1])

    def describe(self) -> Iterator[str]:
        """Say what was interpreted; see ``Copy``."""
        if self._manifest is not None:
            yield from self._manifest.describe()
        yield from self._algorithms.describe_unknown()

    def is_expected(self, path: bytes, /) -> bool:
        """Return whether the list should name a file; see ``Copy``."""
        if path == self._place:
            return False
        is_payload = find_payload(os.path.basename(self._path))
        if is_payload is not None and b"data/" not in self._tops:
            return path.startswith(b"data/") is is_payload and not path.startswith(b"tagmanifest-")
        return os.path.dirname(path) != os.path.dirname(self._place) or not _is_list(self._root + path)

    def __enter__(self) -> Self:
        """Read up to the first entry; see ``Copy``."""
        first = read_to_entry(self._read())
        if first and isinstance(first[-1], Line):
            return self
        said = f"no line of it can be used ({len(first):,} were looked at)" if first else "holds no digests"
        raise CopyUnreachable(f"{self.shown}: {said}; is it a manifest?")

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """List the lines in their order; see ``Copy``."""
        fault = find_fault(prefix) if prefix else None
        if fault is not None:
            yield Trouble(prefix, fault)
            return
        for found in _join(self._translate(line) for line in self._read() if not self._is_own(line)):
            # An unreadable line may be of any file, also of one below the prefix.
            if isinstance(found, Trouble) or is_below(found.path, prefix):
                yield found

    def open(self, path: bytes) -> CopyFile:
        """Refuse: a manifest has no bytes."""
        message = f"cannot open {show_path(path)}: {self.shown} is a manifest, which holds digests only"
        raise Unreadable(f"{message}; give a copy that has the files", errno=errno.ENOTSUP)

    def _read(self) -> Iterator[Line | BadLine]:
        try:
            with open(self._path, "rb", opener=_open_without_waiting) as stream:
                before = self._stat(stream)
                self._manifest = Manifest(stream, name=self._path, wanted=self._wanted, algorithms=self._algorithms)
                yield from self._manifest.read()
                after = self._stat(stream)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CopyUnreachable(
                f"{self.shown}: can't be read: {reason}; mount its disk, or correct the path or its permissions"
            ) from error
        if before != after:
            raise CopyUnreachable(f"{self.shown}: was written to while it was read; try again when it is finished")

    def _stat(self, stream: BinaryIO) -> tuple[int, int, int]:
        stat = os.fstat(stream.fileno())
        if not S_ISREG(stat.st_mode):
            raise CopyUnreachable(f"{self.shown}: is not a regular file; give a manifest or a folder")
        return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns

    def _translate(self, line: Line | BadLine) -> CopyEntry | Trouble:
        if isinstance(line, BadLine):
            return Trouble(b"", f"line {line.line:,} of the manifest can't be read, so its file is not known")
        path = self._cut(line.path)
        fault = find_fault(path)
        if fault is not None:
            return Trouble(line.path, f"(line {line.line:,}) {fault}")
        published = (Published(KINDS[one], digest) for one, digest in self._algorithms.name_all(line.digests).items())
        return CopyEntry(path, line.size_bytes, None, tuple(published))

    def _is_own(self, line: Line | BadLine) -> bool:
        """Return whether a line is about the list itself, which ``md5sum * > MD5SUMS`` digests before it is whole."""
        return isinstance(line, Line) and self._cut(line.path) == self._place

    def _cut(self, name: bytes) -> bytes:
        """Remove ``./``, double slashes, and the beginning that stands for the copy itself."""
        if name.startswith(b"./") or b"//" in name or b"/./" in name:
            parts = [part for part in name.split(b"/") if part not in (b"", b".")]
            name = (b"/" if name.startswith(b"/") else b"") + b"/".join(parts)
        for top in self._tops:
            if name.startswith(top):
                return name[len(top) :]
        return name


def _is_list(path: bytes) -> bool:
    """Return whether a file begins as a list of digests; one in SFV needs its name, as any text may look like it."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as stream:
            if not S_ISREG(os.fstat(stream.fileno()).st_mode):
                return False
            manifest = Manifest(stream, name=path)
            if manifest.form is Form.SFV and not path.lower().endswith(b".sfv"):
                return False
            return isinstance(next(manifest.read(), None), Line)
    except OSError:
        return False


def _open_without_waiting(path: str | bytes, flags: int) -> int:
    """Open without blocking, also if a FIFO without a writer has replaced the file."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)


def _join(found: Iterable[CopyEntry | Trouble]) -> Iterator[CopyEntry | Trouble]:
    """Merge consecutive entries of one path that do not contradict each other."""
    last: CopyEntry | None = None
    for one in found:
        if last is not None and isinstance(one, CopyEntry) and one.path == last.path and _agree(last, one):
            size_bytes = last.size_bytes if one.size_bytes is None else one.size_bytes
            published = tuple(dict.fromkeys((*last.published, *one.published)))
            last = CopyEntry(last.path, size_bytes, None, published)
            continue
        if last is not None:
            yield last
        last = one if isinstance(one, CopyEntry) else None
        if last is None:
            yield one
    if last is not None:
        yield last


def _agree(first: CopyEntry, second: CopyEntry) -> bool:
    kinds = {published.kind: published.value for published in first.published}
    is_size_equal = None in (first.size_bytes, second.size_bytes) or first.size_bytes == second.size_bytes
    return is_size_equal and all(kinds.get(one.kind, one.value) == one.value for one in second.published)
