"""
Find out how the listings of a tree spell a name.

Some file systems (FAT, exFAT, SMB, HFS+, ext4 and ZFS on demand) equate ``UP`` and ``up``, or two encodings of an
accent: a file is then opened by a name that no listing has.
"""

from __future__ import annotations

import os
import unicodedata

from integrity.files.open_beneath import open_noatime
from integrity.same_name import SamePaths


def find_variants(path: bytes) -> set[bytes]:
    """Return other spellings of a path: in the other letter case, its last name or all of it, and Unicode form."""
    text = os.fsdecode(path)
    folder, slash, name = text.rpartition("/")
    forms = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    variants = {text.swapcase(), folder + slash + name.swapcase(), *forms} - {text}
    return {variant.encode("utf-8", "surrogateescape") for variant in variants}


class Spelling:
    """
    Look names up in the listings of their folders; the listings of the last folders are kept.

    Args:
        root_fd: the folder that paths are relative to; remains the caller's.
    """

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._paths = SamePaths(self._list, ignores_case=True)

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
        return self._paths.find(path)

    def _list(self, folder: bytes) -> list[bytes]:
        fd = open_noatime(self._root_fd, folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return [os.fsencode(name) for name in os.listdir(fd)]
        finally:
            os.close(fd)
