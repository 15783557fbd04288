"""The parity sets of a root as a source of good blocks, like any other copy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog.parity import has_sets
from integrity.config.copy_urls import PARITY
from integrity.copies.parity.copy import ParityCopy
from integrity.jobs.compare.source import CopySource

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.catalog.roots import RootRecord
    from integrity.copies.protocol import Copy
    from integrity.files.excludes import Excludes


@dataclass(frozen=True, slots=True)
class ParitySource(CopySource):
    """Where the parity of a root is known: in the catalog."""

    catalog: Catalog | None = None
    root: RootRecord | None = None

    def open(self, excludes: Excludes | None = None, must_stop: Callable[[], bool] | None = None) -> Copy:  # noqa: ARG002
        """Create the copy; entering it looks for the sets."""
        assert self.catalog is not None
        assert self.root is not None
        copy = ParityCopy(self.catalog, self.root)
        if must_stop is not None:
            copy.interrupt_when(must_stop)
        return copy


def find_parity(catalog: Catalog, root: RootRecord) -> list[CopySource]:
    """Return the parity of a root; none if it has no set."""
    with catalog.read() as connection:
        is_there = has_sets(connection, root.id)
    return [ParitySource(PARITY, f"{PARITY}:", root.path, catalog=catalog, root=root)] if is_there else []
