"""
Find out how the listings of a tree spell a name.

Some file systems (FAT, exFAT, SMB, HFS+, ext4 and ZFS on demand) equate ``UP`` and ``up``, or two encodings of an
accent: a file is then opened by a name that no listing has.
"""

from __future__ import annotations

import os
import unicodedata

from integrity.files.open_beneath import open_noatime


def fold_name(name: bytes) -> bytes:
    """Return what all spellings of a name or path have in common: letter case and Unicode form do not matter."""
    if name.isascii():
        return name.lower()
    folded = unicodedata.normalize("NFC", os.fsdecode(name)).casefold()
    return unicodedata.normalize("NFC", folded).encode("utf-8", "surrogateescape")


def find_variants(path: bytes) -> set[bytes]:
    """Return other spellings of a path: in the other letter case, its last name or all of it, and Unicode form."""
    text = os.fsdecode(path)
    folder, slash, name = text.rpartition("/")
    forms = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    variants = {text.swapcase(), folder + slash + name.swapcase(), *forms} - {text}
    return {variant.encode("utf-8", "surrogateescape") for variant in variants}


class Spelling:
    """
    Look names up in the listings of their folders; caches the listings of the folders above the last path.

    Args:
        root_fd: the folder that paths are relative to; remains the caller's.
    """

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._names: dict[bytes, frozenset[bytes]] = {}

    def is_exact(self, path: bytes) -> bool:
        """
        Return whether every folder on the path lists the next name exactly as written.

        Raises:
            OSError: one of them can't be listed.
        """
        return self.find(path) == path

    def find(self, path: bytes) -> bytes | None:
        """
        Return a path as the listings spell it; None if they show no name like it, or several.

        Raises:
            OSError: a folder can't be listed.
        """
        steps, shown = path.split(b"/"), b""
        above: dict[bytes, frozenset[bytes]] = {}
        for name in steps:
            names = above[shown] = self._names[shown] if shown in self._names else self._list(shown)
            if name not in names:
                folded = fold_name(name)
                alike = [one for one in names if fold_name(one) == folded]
                if len(alike) != 1:
                    self._names = above
                    return None
                name = alike[0]
            shown = shown + b"/" + name if shown else name
        self._names = above
        return shown

    def _list(self, folder: bytes) -> frozenset[bytes]:
        fd = open_noatime(self._root_fd, folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return frozenset(os.fsencode(name) for name in os.listdir(fd))
        finally:
            os.close(fd)
