"""
Names under which another inode stands than was recorded.

Most were saved by a program that writes a new file and renames it. But ``mv a b`` and a new ``a`` look the same until
``b`` is met: then the record of ``a`` belongs to ``b``, and ``a`` is a new file. So these names wait until all others
have been met; only then is it known whose content changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integrity.files.walk import Seen
    from integrity.jobs.arrivals import Place
    from integrity.model import Witness

_KEPT = 200_000
"""So many wait; a whole tree on a new disk has more, and there nothing was moved."""


class Replaced:
    """Keep such names, and what stands under them now."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._found: dict[tuple[int, int, int], bytes] = {}

    def add(self, place: Place, seen: Seen) -> bool:
        """Let a name wait; say False if it can't, because too many do."""
        if len(self._places) >= _KEPT:
            return False
        self._places.append(place)
        self._found[seen.inode, seen.size_bytes, seen.mtime_ns] = place.path
        return True

    def take(self) -> list[Place]:
        """Hand over the names that wait."""
        places, self._places = self._places, []
        return places

    def holds(self, path: bytes, witness: Witness) -> bool:
        """Say whether the file with this witness stands under another of these names than ``path`` now."""
        found = self._found.get((witness.inode, witness.size_bytes, witness.mtime_ns))
        return found is not None and found != path
