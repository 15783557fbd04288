"""What a root leaves out, asked with the paths of a copy that begins at one of the root's folders."""

from __future__ import annotations

from integrity.files.excludes import Excludes


class Below(Excludes):
    """
    A root's excludes for what lies below one of its folders.

    Args:
        excludes: of the root; their paths begin at the root.
        folder: relative to the root.
    """

    __slots__ = ("_above", "_excludes")

    def __init__(self, excludes: Excludes, folder: bytes) -> None:
        super().__init__()
        self._excludes = excludes
        self._above = folder + b"/"

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        """Tell whether one entry is left out; see ``Excludes``."""
        return self._excludes.matches(self._above + path, name, is_folder)

    def may_match(self, names: bytes) -> bool:
        """Tell whether any of some files may be left out; see ``Excludes``."""
        return self._excludes.may_match(names)
