"""Go through the recorded files of a run's part of a root, a page at a time, so that rows may be written in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity.catalog import files
from integrity.model import FileId

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

_PAGE = 2000


def iterate_files(run: RootRun) -> Iterator[tuple[FileId, bytes]]:
    """Give id and path of each recorded file in the run's parts of the root, by id within each."""
    for part in run.parts:
        yield from _iterate_part(run, part)


def _iterate_part(run: RootRun, part: bytes) -> Iterator[tuple[FileId, bytes]]:
    after = FileId(0)
    while True:
        with run.catalog.read() as connection:
            page = files.page_files(connection, run.root.id, prefix=part, after=after, limit=_PAGE)
        if not page:
            return
        for file_id, path, _ in page:
            yield file_id, path
        after = page[-1][0]
