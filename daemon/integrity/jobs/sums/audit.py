"""
Hold a tree against a manifest in both directions, as ``hashdeep -a`` does: each file is matched, moved, new or missing.

A known file is used once: two files of the same content, both renamed, are two moves, and a further copy is new. A file
that has other content than is known under its name is new, and the known one is missing. A file that can't be read is
neither, and what is known under its name is not missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from integrity.hashing.file_sums import Hint, ListedPaths, sum_files
from integrity.jobs.sum.audit import KnownFile, KnownFiles


class State(StrEnum):
    """What became of a file."""

    MATCHED = "matched"  # known under this name, with this content
    MOVED = "moved"  # known under another name, at which it is no more
    NEW = "new"  # not known with this content, or one copy more than is known
    MISSING = "missing"  # known, and nowhere found
    UNREADABLE = "unreadable"


class Audited(NamedTuple):
    """
    One file.

    Attributes:
        path: where it is; of a missing one, where it was.
        state: of it.
        origin: where it was, if it was moved; what it is a copy of, if it is new and a copy.
        error: why it can't be read.
    """

    path: bytes
    state: State
    origin: bytes | None = None
    error: OSError | None = None


def audit(
    known: KnownFiles,
    paths: Iterable[bytes | ListedPaths | Hint],
    *,
    jobs: int | None = None,
    idle: Callable[[], None] = lambda: None,
) -> Iterator[Audited]:
    """
    Yield what became of each file: those that match or can't be read as they are found, then the others, in order.

    Which file was moved from where is known only when all are.

    Args:
        known: complete.
        paths: of the files to look at.
        jobs: threads; None for one per processor.
        idle: called when the next file takes a while.
    """
    algorithms = known.algorithms
    used: set[KnownFile] = set()
    seen: set[bytes] = set()
    unreadable: set[bytes] = set()
    others: list[tuple[bytes, list[KnownFile]]] = []
    for result in sum_files(paths, algorithms, jobs=jobs, idle=idle):
        key = known.make_key(result.path)
        if key in seen:
            continue  # named twice
        seen.add(key)
        if result.error is not None:
            unreadable.add(key)
            yield Audited(result.path, State.UNREADABLE, error=result.error)
            continue
        same = known.find_same(result, algorithms)
        here = [file for file in same if file.key == key]
        if here:
            used.update(here)
            yield Audited(result.path, State.MATCHED)
        else:
            others.append((result.path, same))
    used.update(file for file in known if file.key in unreadable)
    yield from _place(others, used)
    yield from (Audited(file.path, State.MISSING) for file in known if file not in used)


def _place(others: list[tuple[bytes, list[KnownFile]]], used: set[KnownFile]) -> Iterator[Audited]:
    """Tell moved files from new ones."""
    for path, same in others:
        origin = next((file for file in same if file not in used), None)
        if origin is not None:
            used.add(origin)
            yield Audited(path, State.MOVED, origin.path)
        else:
            yield Audited(path, State.NEW, same[0].path if same else None)
