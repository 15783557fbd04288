"""
Know where each watched folder lies.

A folder is kept as its name and the watch of the folder above it, so that one that is moved takes all below it along at
the cost of one entry, and none costs memory for the path above it.
"""

from __future__ import annotations

from collections.abc import Collection

_NOWHERE = -1


class Places:
    """
    The watched folders of one tree, by their watch.

    A folder whose way up does not end at the top is an orphan: it has no path. It is not made to have one: what was
    moved away stays so until it is removed.
    """

    __slots__ = ("_places", "_top")

    def __init__(self) -> None:
        self._places: dict[int, tuple[int, bytes]] = {}
        self._top = _NOWHERE

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, watch: int) -> bool:
        return watch in self._places

    def put_top(self, watch: int) -> bool:
        """Note the folder that all paths begin at; return whether that is news."""
        self._top = watch
        return self.put(watch, _NOWHERE, b"")

    def is_top(self, watch: int) -> bool:
        """Tell whether a watch is that of the folder that all paths begin at."""
        return watch == self._top

    def put(self, watch: int, above: int, name: bytes) -> bool:
        """Note where a folder lies; return whether that is news."""
        place = (above, name)
        if self._places.get(watch) == place:
            return False
        self._places[watch] = place
        return True

    def drop(self, watch: int) -> None:
        """Forget a folder; those below it become orphans."""
        self._places.pop(watch, None)

    def find_path(self, watch: int) -> bytes | None:
        """Find the path of a folder, relative to the top."""
        names: list[bytes] = []
        # Moves that are noted one by one may for a moment make a ring of what never was one.
        for _ in range(len(self._places) + 1):
            if watch == self._top:
                return b"/".join(reversed(names))
            place = self._places.get(watch)
            if place is None:
                return None
            watch = place[0]
            names.append(place[1])
        return None

    def find_at(self, places: Collection[tuple[int, bytes]]) -> list[int]:
        """List the watches noted at some places, each the watch above and a name."""
        return [watch for watch, place in self._places.items() if place in places]

    def find_orphans(self) -> list[int]:
        """List the folders that have no path."""
        is_placed = {self._top: self._top in self._places}
        orphans = []
        for watch in self._places:
            way: list[int] = []
            step = watch
            while step not in is_placed:
                is_placed[step] = False  # until its end is known; a ring has none
                way.append(step)
                place = self._places.get(step)
                if place is None:
                    break
                step = place[0]
            is_good = is_placed.get(step, False)
            is_placed.update(dict.fromkeys(way, is_good))
            if not is_placed[watch]:
                orphans.append(watch)
        return orphans
