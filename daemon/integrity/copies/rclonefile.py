"""
Read a file of an rclone remote from anywhere in it, by ``rclone cat``.

Each place is a program of its own; but whoever goes on where he stopped gets what one program streams, so that reading
a file from its beginning to its end takes two.
"""

from __future__ import annotations

import errno
from typing import NoReturn

from integrity.copies.rclone.program import Remote, Running
from integrity.copies.rclonenames import to_rclone
from integrity.errors import Unreadable, Unstable, show_path


class RcloneFile:
    """
    One file of a remote; see ``CopyFile``.

    Args:
        remote: that has it.
        path: without any fault.
        size_bytes: as listed; None where the store does not say, and then it can't be read.
    """

    def __init__(self, remote: Remote, path: bytes, size_bytes: int | None) -> None:
        if size_bytes is None:
            raise Unreadable(f"cannot open {show_path(path)}: the store does not tell its size", errno=errno.ENOTSUP)
        self.size_bytes = size_bytes
        self._remote = remote
        self._path = path
        self._running: Running | None = None
        self._position = 0
        self._is_counted = False

    def read(self, offset: int, length: int) -> bytes:
        """Read from anywhere; see ``CopyFile``."""
        wanted = min(offset + length, self.size_bytes) - offset
        if wanted <= 0:
            return b""
        running = self._running
        if running is None or offset != self._position:
            running = self._begin(offset, wanted)
        parts: list[bytes] = []
        missing = wanted
        while missing:
            part = running.read(missing)
            if not part:
                self._fail(running)
            parts.append(part)
            missing -= len(part)
        self._position = offset + wanted
        if self._is_counted:
            self._stop()
        return b"".join(parts)

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        self._stop()

    def _begin(self, offset: int, wanted: int) -> Running:
        """Start rclone at an offset: for this piece only, or to the end for one who goes on."""
        self._stop()
        self._is_counted = offset == 0 or offset != self._position
        flags = [f"--offset={offset}", *([f"--count={wanted}"] if self._is_counted else [])]
        self._running = self._remote.start("cat", *flags, names=[to_rclone(self._path)])
        return self._running

    def _fail(self, running: Running) -> NoReturn:
        """Say why there is no more."""
        code = running.wait()
        reason = self._remote.hide(running.reason())
        self._stop()
        if code == 0:
            raise Unstable(f"{show_path(self._path)} ended before its size; try again")
        raise Unreadable(f"cannot read {show_path(self._path)}: {reason}; try again", errno=errno.EIO)

    def _stop(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None
