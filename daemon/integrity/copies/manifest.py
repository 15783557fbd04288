"""
A copy that is a file of digests, as written by md5sum, BSD's tools, hashdeep, BagIt, SFV tools and ``integrity sum``.

It has digests and perhaps sizes, no bytes. ``hashing.manifests`` parses the lines.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Sequence
from stat import S_ISREG
from typing import BinaryIO, Self

from integrity.copies.base import BaseCopy
from integrity.copies.filenames import find_fault, is_below
from integrity.copies.protocol import CopyEntry, CopyFile, Kind, Published, Trouble
from integrity.errors import CopyUnreachable, Unreadable, show_path
from integrity.hashing.algorithms import BLAKE3, CRC32, MD5, SHA1, SHA256, SHA512, XXH64, XXH128, Algorithm
from integrity.hashing.manifests.entries import BadLine
from integrity.hashing.manifests.entries import ManifestEntry as Line
from integrity.hashing.manifests.reader import Manifest

_KINDS = {
    MD5: Kind.MD5,
    SHA1: Kind.SHA1,
    SHA256: Kind.SHA256,
    SHA512: Kind.SHA512,
    XXH64: Kind.XXH64,
    XXH128: Kind.XXH3_128,
    BLAKE3: Kind.BLAKE3,
    CRC32: Kind.CRC32,
}
_BAD_AT_MOST = 100_000  # a file that begins with so many unusable lines is no manifest


class ManifestCopy(BaseCopy):
    """
    A file of digests as a copy.

    Consecutive lines of one file are one entry: some tools write a line for each algorithm.

    Args:
        tops: beginnings of names that stand for the copy itself and are removed: the absolute path of the root, or
            ``data`` in a bag that contains the root's files.
        algorithm: reads only digests of this one: BLAKE3 for the output of b3sum, which looks like SHA-256; None for
            all.
    """

    has_bytes = False

    def __init__(self, path: bytes, *, tops: Sequence[bytes] = (), algorithm: Algorithm | None = None) -> None:
        super().__init__(os.fsdecode(path), show_path(path))
        self._path = path
        self._tops = tuple(top.rstrip(b"/") + b"/" for top in tops)
        self._wanted = () if algorithm is None else (algorithm,)

    def __enter__(self) -> Self:
        """Read up to the first entry; see ``Copy``."""
        bad = 0
        for line in self._read():
            if isinstance(line, Line):
                return self
            bad += 1
            if bad == _BAD_AT_MOST:
                break
        said = f"no line of it can be used ({bad:,} were looked at)" if bad else "holds no digests"
        raise CopyUnreachable(f"{self.shown}: {said}; is it a manifest?")

    def list(self, prefix: bytes = b"") -> Iterator[CopyEntry | Trouble]:
        """List the lines in their order; see ``Copy``."""
        fault = find_fault(prefix) if prefix else None
        if fault is not None:
            yield Trouble(prefix, fault)
            return
        for found in _join(map(self._translate, self._read())):
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
                yield from Manifest(stream, name=self._path, wanted=self._wanted).read()
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
        published = (Published(_KINDS[one], digest) for one, digest in line.digests.items() if one in _KINDS)
        return CopyEntry(path, line.size_bytes, None, tuple(published))

    def _cut(self, name: bytes) -> bytes:
        """Remove ``./``, double slashes, and the beginning that stands for the copy itself."""
        if name.startswith(b"./") or b"//" in name or b"/./" in name:
            parts = [part for part in name.split(b"/") if part not in (b"", b".")]
            name = (b"/" if name.startswith(b"/") else b"") + b"/".join(parts)
        for top in self._tops:
            if name.startswith(top):
                return name[len(top) :]
        return name


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
