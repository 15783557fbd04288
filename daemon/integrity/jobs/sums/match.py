"""Tell files whose content is known from others, by digest alone, as ``md5deep -m`` and ``-x`` do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from integrity.hashing.file_sums import FileSum, Hint, ListedPaths, sum_files
from integrity.jobs.sum.audit import KnownFiles


def match(
    known: KnownFiles,
    paths: Iterable[bytes | ListedPaths | Hint],
    *,
    wants_known: bool,
    jobs: int | None = None,
    idle: Callable[[], None] = lambda: None,
) -> Iterator[FileSum]:
    """
    Yield the files that are known, or those that are not, and all that could not be read.

    Args:
        known: complete.
        paths: of the files to look at.
        wants_known: which of the two.
        jobs: threads; None for one per processor.
        idle: called when the next file takes a while.
    """
    algorithms = known.algorithms
    for result in sum_files(paths, algorithms, jobs=jobs, idle=idle):
        if result.error is not None or bool(known.find_same(result, algorithms)) == wants_known:
            yield result
