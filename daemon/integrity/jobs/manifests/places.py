"""From the names in a manifest to files of a root: never out of it, whatever a name says."""

from __future__ import annotations

import os

from integrity.jobs.targets import Target


class Places:
    """
    Find what the names of one manifest mean.

    A name is taken as it is written: ``..`` takes back the part before it, and no symbolic link is followed. What a
    name leads to is then opened beneath the root, so even a wrong one can't lead out of it.

    Args:
        target: the root, or the part of it, that names must lie in.
        base: absolute real path of the folder that names are relative to.
        spelled: absolute path of the target as the user wrote it, which absolute names may begin with as well.
    """

    def __init__(self, target: Target, base: bytes, spelled: bytes) -> None:
        root = target.root.path.rstrip(b"/")
        whole = root + b"/" + target.prefix if target.prefix else root
        self._base = base
        self._prefix = target.prefix + b"/" if target.prefix else b""
        self._tops = tuple(dict.fromkeys((whole + b"/", spelled.rstrip(b"/") + b"/")))

    def find(self, name: bytes) -> bytes | None:
        """Return the path relative to the root; None if the name lies outside of the target, or is the target."""
        path = b"/" + os.path.normpath(os.path.join(self._base, name)).lstrip(b"/")  # POSIX lets "//" stand
        for top in self._tops:
            if path.startswith(top) and len(path) > len(top):
                return self._prefix + path[len(top) :]
        return None
