"""Find where a path really leads, also while a server or a disk on the way does not answer."""

from __future__ import annotations

import os
import threading

_PATIENCE_S = 3.0
_MOST_LINKS = 40
"""As many as the kernel follows (path_resolution(7))."""


def resolve(path: bytes, *, patience_s: float = _PATIENCE_S) -> bytes:
    """
    Follow the symbolic links of a path, as realpath does.

    What lies beyond a file system that does not answer in time is taken as it is written: a root that hangs must
    neither keep the service from its other roots nor be taken for another one.
    """
    walk = _Walk(path)
    thread = threading.Thread(target=walk.run, name="resolve", daemon=True)
    thread.start()
    thread.join(patience_s)
    return walk.guess()


class _Walk:
    """One walk along a path. ``at`` is what has been resolved and what is left, replaced as one."""

    def __init__(self, path: bytes) -> None:
        path = path if path.startswith(b"/") else os.path.join(os.getcwdb(), path)
        self.at = (b"/", tuple(path.split(b"/")))

    def run(self) -> None:
        links = 0
        while self.at[1]:
            done, (name, *rest) = self.at
            if name in (b"", b"."):
                self.at = (done, tuple(rest))
                continue
            if name == b"..":
                self.at = (os.path.dirname(done), tuple(rest))
                continue
            here = os.path.join(done, name)
            try:
                target = os.readlink(here)
            except OSError:  # no link, or nothing there: whoever opens it says what is wrong
                target = b""
            links += bool(target)
            if not target or links > _MOST_LINKS:
                self.at = (here, tuple(rest))
            else:
                self.at = (b"/" if target.startswith(b"/") else done, (*target.split(b"/"), *rest))

    def guess(self) -> bytes:
        done, rest = self.at
        return os.path.normpath(os.path.join(done, *rest))
