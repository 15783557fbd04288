"""
Whether a mounted copy has a name exactly as it is written.

Some file systems (vfat, exFAT, SMB and others) take ``UP`` and ``up`` for one name, or accents written in two ways: a
file is then found under a name under which no listing has it.
"""

from __future__ import annotations

import os

from integrity.files.open_beneath import open_noatime


class Spelling:
    """
    Look names up in the listings of their folders; keeps those of the folders above the name asked last.

    Args:
        root_fd: the copy's folder; stays the caller's.
    """

    def __init__(self, root_fd: int) -> None:
        self._root_fd = root_fd
        self._names: dict[bytes, frozenset[bytes]] = {}

    def is_exact(self, path: bytes) -> bool:
        """
        Say whether each folder on the way to a file lists the next name as it is written.

        Raises:
            OSError: one of them can't be listed.
        """
        steps = path.split(b"/")
        folders = [b"/".join(steps[:depth]) for depth in range(len(steps))]
        self._names = {folder: self._names[folder] for folder in folders if folder in self._names}
        for folder, name in zip(folders, steps, strict=True):
            if folder not in self._names:
                self._names[folder] = self._list(folder)
            if name not in self._names[folder]:
                return False
        return True

    def _list(self, folder: bytes) -> frozenset[bytes]:
        fd = open_noatime(self._root_fd, folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return frozenset(os.fsencode(name) for name in os.listdir(fd))
        finally:
            os.close(fd)
