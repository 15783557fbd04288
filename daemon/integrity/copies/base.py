"""The answers of a copy that lacks the abilities which only some kinds have; ``Copy`` defines them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from integrity.errors import show_path

if TYPE_CHECKING:
    from integrity.copies.protocol import CopyEntry, Kind, LocalFolder, Trouble
    from integrity.copies.versions import CopyVersion
    from integrity.lists.entries import Digests
    from integrity.lists.unnamed import ListAlgorithms
    from integrity.model import RootIdentity


class BaseCopy:
    """
    A copy on another machine that computes nothing, carries every name, and is identified by its URL.

    Each kind of copy derives from it and overrides what it can do.

    Args:
        url: as given, without options that may be secrets.
        shown: the URL for people.
    """

    nothing_stated = "the copy states no digest of it"
    has_bytes = True
    has_details = False
    keeps_times = False
    reads_all_at_once = False

    def __init__(self, url: str, shown: str) -> None:
        self.url = url
        self.shown = shown
        self.remote_kinds: frozenset[Kind] = frozenset()

    @property
    def folder(self) -> LocalFolder | None:
        """Return None: no folder on this machine."""
        return None

    @property
    def algorithms(self) -> ListAlgorithms | None:
        """Return None: it names its algorithms."""
        return None

    def is_expected(self, path: bytes, /) -> bool:  # noqa: ARG002 - for those that override it
        """Return True: it covers all files."""
        return True

    def sample_unnamed(self) -> Sequence[tuple[bytes, Digests]]:
        """Return nothing: it names its algorithms."""
        return ()

    def describe(self) -> Iterator[str]:
        """Yield nothing: nothing was interpreted."""
        yield from ()

    def interrupt_when(self, must_stop: Callable[[], bool], /) -> None:
        """Do nothing: there is nothing to wait for."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Do nothing: nothing stays open."""

    def identity(self) -> RootIdentity | None:
        """Return None: the URL says which copy it is."""
        return None

    def find_name_fault(self, path: bytes, /) -> str | None:  # noqa: ARG002 - for those that override it
        """Return None: every name can be there."""
        return None

    def read_all(
        self,
        prefix: bytes = b"",
        without: Collection[bytes] = (),  # noqa: ARG002 - for those that override it
    ) -> Iterator[CopyEntry | Trouble]:
        """Refuse: its files are read one by one."""
        raise ValueError(f"{self.shown}: its files are read one by one, also below {show_path(prefix)}")

    def versions(self) -> Iterator[CopyVersion]:
        """Yield nothing: it has one state only."""
        return iter(())

    def is_reading(self, version: CopyVersion) -> bool:  # noqa: ARG002 - for those that override it
        """Return False: what lies in a folder may have changed there since."""
        return False

    def choose(self, version: CopyVersion) -> None:
        """Refuse: it has one state only."""
        raise ValueError(f"{self.shown}: has no version {version.name}")

    def look_at(self, path: bytes) -> CopyEntry | None:
        """Refuse: it has one state only."""
        raise ValueError(f"{self.shown}: has no versions of {show_path(path)}")

    def find_changes(self, older: CopyVersion, newer: CopyVersion, prefix: bytes = b"") -> Iterator[bytes]:
        """Refuse: it has one state only."""
        raise ValueError(f"{self.shown}: has no versions {older.name} and {newer.name} of {show_path(prefix)}")

    def look_closer(self, path: bytes, *, every_part: bool = False) -> CopyEntry | Trouble:
        """Refuse: the listing states everything."""
        which = f"{show_path(path)}{', part by part' if every_part else ''}"
        raise ValueError(f"{self.shown}: the listing states everything that is known of {which}")

    def digest(self, paths: Sequence[bytes], kind: Kind) -> Iterator[tuple[bytes, bytes | Trouble]]:
        """Refuse: nothing computes digests there."""
        raise ValueError(f"{self.shown}: no {kind} digest can be computed there: {len(paths)} files")
