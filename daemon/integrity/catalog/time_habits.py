"""
Folders that keep no times: those whose files get other times again and again while their content stays.

One row of ``meta`` for each root counts how often that was seen of which folder. What was not seen for long is dropped.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable

from integrity.catalog.db import Connection
from integrity.catalog.root_meta import RootMeta
from integrity.catalog.roots import RootRecord

_HABITS = RootMeta("times")
_ID = "folders"
_IS_HABIT = 3
"""Times that a folder's times must have moved: twice may be a copy and its repetition."""

_KEPT_S = 60 * 86_400
_MOST = 1000


def find_timeless(c: Connection, root: RootRecord) -> set[bytes]:
    """Return the folders of a root that keep no times."""
    return {folder for folder, (count, _) in _load(c, root).items() if count >= _IS_HABIT}


def count_moved(c: Connection, root: RootRecord, folders: Iterable[bytes], now: int) -> list[bytes]:
    """Count the folders whose times moved in a run; return those that keep no times, as is known from now on."""
    known = {folder: one for folder, one in _load(c, root).items() if one[1] > now - _KEPT_S}
    for folder in sorted(folders):
        count, _ = known.get(folder, (0, now))
        if folder in known or len(known) < _MOST:
            known[folder] = min(count + 1, _IS_HABIT + 1), now
    _HABITS.save(c, root, _ID, {b64encode(folder).decode(): one for folder, one in known.items()})
    return [folder for folder in sorted(folders) if known.get(folder, (0, 0))[0] == _IS_HABIT]


def _load(c: Connection, root: RootRecord) -> dict[bytes, tuple[int, int]]:
    return {
        b64decode(name): (one[0], one[1])
        for _, value in _HABITS.find(c, root)
        for name, one in value.items()
        if isinstance(one, list)  # not the key that earlier versions put into all objects
    }
