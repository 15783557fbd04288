"""The files that manifests tell of, found by content or by name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from integrity.hashing.algorithms import ALGORITHMS, Algorithm
from integrity.hashing.file_sums import FileSum
from integrity.hashing.manifests.entries import BadLine
from integrity.hashing.manifests.reader import Manifest
from integrity.jobs.sum.check import resolve


@dataclass(slots=True, eq=False)
class KnownFile:
    """What one manifest says of one file; lines that follow each other may add to its digests."""

    path: bytes
    key: bytes
    size_bytes: int | None
    digests: dict[Algorithm, bytes]


class KnownFiles:
    """
    All files of some manifests.

    Attributes:
        algorithms: all that occur, in the order of the table.
        bad_lines: how many lines could not be read.
    """

    def __init__(self) -> None:
        self.bad_lines = 0
        self._working_folder = os.getcwdb()
        self._files: list[KnownFile] = []
        self._by_digest: dict[Algorithm, dict[bytes, list[KnownFile]]] = {}

    def add(self, manifest: Manifest, name: bytes) -> int:
        """
        Take the files of a manifest.

        Args:
            manifest: not read yet.
            name: of its file.

        Returns:
            How many there are.

        Raises:
            OSError: it can't be read on.
        """
        before = len(self._files)
        last: KnownFile | None = None
        for item in manifest.read():
            if isinstance(item, BadLine):
                self.bad_lines += 1
                continue
            path = resolve(manifest, name, item.path)
            if last is not None and last.path == path and not last.digests.keys() & item.digests.keys():
                last.digests.update(item.digests)
                continue
            last = KnownFile(path, self.make_key(path), item.size_bytes, dict(item.digests))
            self._files.append(last)
            algorithm, digest = next(iter(item.digests.items()))
            self._by_digest.setdefault(algorithm, {}).setdefault(digest, []).append(last)
        return len(self._files) - before

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """Name all algorithms by which files are known."""
        occurring = {algorithm for file in self._files for algorithm in file.digests}
        return tuple(algorithm for algorithm in ALGORITHMS if algorithm in occurring)

    def __iter__(self) -> Iterator[KnownFile]:
        return iter(self._files)

    def find_same(self, result: FileSum, algorithms: Sequence[Algorithm]) -> list[KnownFile]:
        """Return those with the content of a file that was digested with ``algorithms``, in the manifests' order."""
        found = dict(zip(algorithms, result.pieces[0][2], strict=True))
        same: list[KnownFile] = []
        for algorithm, digest in found.items():
            candidates = self._by_digest.get(algorithm, {}).get(digest, ())
            same += [file for file in candidates if _agrees(file, found, result.size_bytes)]
        return same

    def make_key(self, path: bytes) -> bytes:
        """Write a path so that two names of one place are equal, as far as the names tell."""
        if not path.startswith(b"/"):
            path = self._working_folder + b"/" + path
        if b"/." in path or b"//" in path or path.endswith(b"/"):
            path = os.path.normpath(path)
        return path


def _agrees(file: KnownFile, found: Mapping[Algorithm, bytes], size_bytes: int) -> bool:
    if file.size_bytes is not None and file.size_bytes != size_bytes:
        return False
    return all(found.get(algorithm) == digest for algorithm, digest in file.digests.items())
