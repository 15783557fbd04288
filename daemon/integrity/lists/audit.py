"""
Compare a tree with manifests, by content and by name.

``audit`` compares in both directions, as ``hashdeep -a`` does: each file is matched, moved, new or missing. ``match``
separates known files from unknown ones by digest alone, as ``md5deep -m`` and ``-x`` do.

A known file is used once: two renamed files of equal content are two moves, and a further copy is new. A file with
other content under a known name is new, and the known one is missing. An unreadable file is neither, and the file known
under its name is not missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from integrity.hashing.algorithms import ALGORITHMS
from integrity.hashing.file_sums import FileSum, Hint, ListedPaths, sum_files
from integrity.hashing.stored_digests import Algorithm
from integrity.lists.check import find_algorithms, resolve
from integrity.lists.entries import BadLine
from integrity.lists.reader import Manifest


@dataclass(slots=True, eq=False)
class ManifestFile:
    """One manifest's entry for a file; consecutive lines may add digests to it."""

    path: bytes
    key: bytes
    size_bytes: int | None
    digests: dict[Algorithm, bytes]


class ManifestFiles:
    """
    All files of some manifests.

    Attributes:
        bad_lines: number of lines that could not be read.
    """

    def __init__(self) -> None:
        self.bad_lines = 0
        self._working_folder = os.getcwdb()
        self._files: list[ManifestFile] = []
        self._by_digest: dict[Algorithm, dict[bytes, list[ManifestFile]]] = {}

    def add(self, manifest: Manifest, name: bytes) -> int:
        """
        Add the files of a manifest that was not read yet; ``name`` is the name of its file.

        Returns:
            Number of files added.

        Raises:
            OSError: reading failed.
        """
        before = len(self._files)
        last: ManifestFile | None = None
        items = list(manifest.read())
        entries = [item for item in items if not isinstance(item, BadLine)]
        self.bad_lines += len(items) - len(entries)
        find_algorithms(manifest.algorithms, ((resolve(manifest, name, item.path), (item,)) for item in entries))
        for item in entries:
            path, digests = resolve(manifest, name, item.path), manifest.algorithms.name_all(item.digests)
            if last is not None and last.path == path and not last.digests.keys() & digests.keys():
                last.digests.update(digests)
                continue
            last = ManifestFile(path, self.make_key(path), item.size_bytes, dict(digests))
            self._files.append(last)
            for algorithm, digest in islice(digests.items(), 1):
                self._by_digest.setdefault(algorithm, {}).setdefault(digest, []).append(last)
        return len(self._files) - before

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """Return all algorithms that occur, in the order of ``ALGORITHMS``."""
        occurring = {algorithm for file in self._files for algorithm in file.digests}
        return tuple(algorithm for algorithm in ALGORITHMS if algorithm in occurring)

    def __iter__(self) -> Iterator[ManifestFile]:
        return iter(self._files)

    def find_same(self, result: FileSum, algorithms: Sequence[Algorithm]) -> list[ManifestFile]:
        """Return the files with the content of a file that was digested with ``algorithms``; grouped by algorithm."""
        found = dict(zip(algorithms, result.pieces[0][2], strict=True))
        same: list[ManifestFile] = []
        for algorithm, digest in found.items():
            candidates = self._by_digest.get(algorithm, {}).get(digest, ())
            alike = (file for file in candidates if file.size_bytes in (None, result.size_bytes))
            same += [file for file in alike if found.items() >= file.digests.items()]
        return same

    def make_key(self, path: bytes) -> bytes:
        """Normalize a path, so that two spellings of one path are equal; links are not resolved."""
        if not path.startswith(b"/"):
            path = self._working_folder + b"/" + path
        if b"/." in path or b"//" in path or path.endswith(b"/"):
            path = os.path.normpath(path)
        return path


class AuditState(StrEnum):
    """Result for one file."""

    MATCHED = "matched"  # known under this name, with this content
    MOVED = "moved"  # known under another name, which no longer has this content
    NEW = "new"  # unknown content, or one copy more than is known
    MISSING = "missing"  # known, and not found anywhere
    UNREADABLE = "unreadable"


class Audited(NamedTuple):
    """
    Result for one file.

    Attributes:
        path: current path; of a missing file, the former one.
        origin: former path of a moved file; for a new copy the known file of the same content.
        error: why the file can't be read.
    """

    path: bytes
    state: AuditState
    origin: bytes | None = None
    error: OSError | None = None


def audit(
    known: ManifestFiles,
    paths: Iterable[bytes | ListedPaths | Hint],
    *,
    jobs: int | None = None,
    idle: Callable[[], None] = lambda: None,
) -> Iterator[Audited]:
    """
    Yield the result for each file: matches and unreadable files as they are found, then the others in order.

    Moves are known only when all files were read.

    Args:
        jobs, idle: see ``check``.
    """
    algorithms = known.algorithms
    used: set[ManifestFile] = set()
    seen: set[bytes] = set()
    unreadable: set[bytes] = set()
    others: list[tuple[bytes, list[ManifestFile]]] = []
    for result in sum_files(paths, algorithms, jobs=jobs, idle=idle):
        key = known.make_key(result.path)
        if key in seen:
            continue  # named twice
        seen.add(key)
        if result.error is not None:
            unreadable.add(key)
            yield Audited(result.path, AuditState.UNREADABLE, error=result.error)
            continue
        same = known.find_same(result, algorithms)
        here = [file for file in same if file.key == key]
        if here:
            used.update(here)
            yield Audited(result.path, AuditState.MATCHED)
        else:
            others.append((result.path, same))
    used.update(file for file in known if file.key in unreadable)
    for path, same in others:
        origin = next((file for file in same if file not in used), None)
        if origin is not None:
            used.add(origin)
            yield Audited(path, AuditState.MOVED, origin.path)
        else:
            yield Audited(path, AuditState.NEW, same[0].path if same else None)
    yield from (Audited(file.path, AuditState.MISSING) for file in known if file not in used)


def match(
    known: ManifestFiles,
    paths: Iterable[bytes | ListedPaths | Hint],
    *,
    wants_known: bool,
    jobs: int | None = None,
    idle: Callable[[], None] = lambda: None,
) -> Iterator[FileSum]:
    """
    Yield the files that are known, or those that are not, and all that could not be read.

    Args:
        jobs, idle: see ``check``.
    """
    algorithms = known.algorithms
    for result in sum_files(paths, algorithms, jobs=jobs, idle=idle):
        if result.error is not None or bool(known.find_same(result, algorithms)) == wants_known:
            yield result
