"""
List a copy as a whole, beside what is recorded, before anything is concluded from it.

I1  A name that could not be looked at, or lies where not all could, is never taken for missing.
I2  A listing that breaks off, or of which no name is recorded, proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from integrity.catalog.copylist import ListedFile, Listing, count_listed
from integrity.copies.protocol import Copy, Entry, Kind, LimitedNames, Published, Trouble
from integrity.errors import CopyUnreachable, show_path
from integrity.jobs.report import NoteKind

if TYPE_CHECKING:
    from integrity.jobs.context import RootRun

_AT_ONCE = 1000
_TROUBLES_KEPT = 100_000  # of more than that it is not known where they were


class CopyListing:
    """
    What a copy has.

    Args:
        run: the part of the root that is compared.
        copy: entered.
        base: the folder in the root that the copy's top stands for.

    Attributes:
        files: how many it listed.
        extra: how many of them only the copy has.
    """

    def __init__(self, run: RootRun, copy: Copy, base: bytes) -> None:
        self._run = run
        self._copy = copy
        self._base = base + b"/" if base else b""
        self._troubles: dict[bytes, str] = {}
        self.files = 0
        self.extra = 0

    def read(self) -> None:
        """
        List the part of the copy that belongs to the run.

        Raises:
            CopyUnreachable: it broke off, or has nothing of what is recorded.
        """
        run = self._run
        with run.catalog.transaction() as connection:
            kept = Listing(connection, run.root.id)
        found = self._entries(self.place(run.prefix) if len(run.prefix) > len(self._base) else b"")
        while entries := list(islice(found, _AT_ONCE)):
            if run.context.stop.is_set():
                return
            with run.catalog.transaction() as connection:
                unknown = kept.add(connection, entries)
            self.files += len(entries)
            self._take_extra(unknown)
            run.progress("list the copy", self.files, 0, files=None, size=None)
        with run.catalog.read() as connection:
            is_strange = self.files > 0 and run.root.file_count > 0 and count_listed(connection) == 0
        if is_strange and not run.prefix[len(self._base) :]:
            raise CopyUnreachable(
                f"{self._copy.shown}: none of its {self.files:,} files has the name of a recorded one: it is a copy of"
                " something else, or of another folder of it; nothing was concluded"
            )

    def place(self, path: bytes) -> bytes:
        """Make the path in the copy of a path in the root; empty for the copy's top."""
        return path[len(self._base) :]

    def find_trouble(self, place: bytes) -> str | None:
        """Say why a path of the copy, or a folder above it, could not be looked at."""
        if not self._troubles:
            return None
        while place not in self._troubles:
            if not place:
                return None
            place = place.rpartition(b"/")[0]
        return self._troubles[place]

    def find_name_fault(self, place: bytes) -> str | None:
        """Say why a file can't be in the copy under its name."""
        return self._copy.find_name_fault(place) if isinstance(self._copy, LimitedNames) else None

    def _entries(self, prefix: bytes) -> Iterator[tuple[bytes, ListedFile]]:
        for found in self._copy.list(prefix):
            if isinstance(found, Trouble):
                self._take_trouble(found)
            else:
                yield self._base + found.path, pack_entry(found)

    def _take_trouble(self, trouble: Trouble) -> None:
        if len(self._troubles) >= _TROUBLES_KEPT:
            self._troubles[b""] = "too many of its names could not be looked at"
        else:
            self._troubles.setdefault(trouble.path, trouble.message)
        self._run.is_incomplete = True
        place = f"{show_path(trouble.path)}: " if trouble.path else ""
        self._run.note(NoteKind.WARNING, None, f"in the copy: {place}{trouble.message}")

    def _take_extra(self, paths: list[bytes]) -> None:
        for path in paths:
            if not self._run.excludes.covers(path, is_folder=False):
                self.extra += 1
                self._run.note(NoteKind.EXTRA, path, "is in the copy, and not here")


def unpack_published(listed: ListedFile) -> tuple[Published, ...]:
    """Take the digests that a copy states out of what was kept of its listing."""
    return tuple(Published(Kind(kind), value, sizes, parts) for kind, value, sizes, parts in listed.published)


def pack_entry(entry: Entry) -> ListedFile:
    """Keep of an entry what is kept with the listing."""
    published = tuple((one.kind.value, one.value, one.part_sizes, one.parts) for one in entry.published)
    return ListedFile(entry.size_bytes, published)
