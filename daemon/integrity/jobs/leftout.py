"""
What a run leaves out besides what its user excludes.

The catalog's own files, in case they lie in the root: they change with every run, and a catalog that watched itself
would never come to rest. And mounts inside the root that are not what was recorded there (``nested``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from integrity.catalog.filenames import compile_own_names
from integrity.config import RootSettings
from integrity.files.excludes import Excludes


class LeftOut(Excludes):
    """
    Tell what of a root is left out.

    Args:
        patterns: the user's.
        builtin: whether the built-in list holds, too.
        own: folder, relative to the root, and pattern of the names of the catalog's files; None: they are elsewhere.
        absent: folders, relative to the root, that nothing can be said of.
    """

    __slots__ = ("_absent", "_own_folder", "_own_names")

    def __init__(
        self,
        patterns: Sequence[str],
        *,
        builtin: bool,
        own: tuple[bytes, re.Pattern[bytes]] | None,
        absent: Iterable[bytes] = (),
    ) -> None:
        super().__init__(patterns, builtin=builtin)
        self._own_folder = b"" if own is None else own[0]
        self._own_names = None if own is None else own[1]
        self._absent = frozenset(absent)

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        """Tell whether one entry is left out, all of whose parent folders are not."""
        if path in self._absent:
            return True
        if self._own_names is not None and path == _join(self._own_folder, name) and self._own_names.fullmatch(name):
            return True
        return super().matches(path, name, is_folder)


def make_excludes(settings: RootSettings, root: bytes, catalog_path: bytes, absent: Iterable[bytes] = ()) -> Excludes:
    """
    Make what tells a run on a root what to leave out.

    Args:
        settings: of the root.
        root: its absolute path.
        catalog_path: of the catalog.
        absent: folders, relative to the root, that nothing can be said of.
    """
    own, places = _find_own(root, catalog_path), tuple(absent)
    if own is None and not places:
        return Excludes(settings.exclude, builtin=settings.builtin_excludes)
    return LeftOut(settings.exclude, builtin=settings.builtin_excludes, own=own, absent=places)


def _find_own(root: bytes, catalog_path: bytes) -> tuple[bytes, re.Pattern[bytes]] | None:
    """Find the catalog's folder relative to a root, and what its files are called; None if it is not inside."""
    top = root.rstrip(b"/") + b"/"
    path = os.path.realpath(catalog_path)
    if not path.startswith(top):
        return None
    return os.path.dirname(path[len(top) :]), compile_own_names(path)


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name
