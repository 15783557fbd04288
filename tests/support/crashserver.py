"""
The disk behind ``support.crashdisk``: one file, whose writes and flushes go into a log before they are done.

Run as ``python -m support.crashserver MOUNTPOINT SOCKET IMAGE LOG`` by ``FuseServer``. The log is a row of entries:

    OFFSET  SIZE  DESCRIPTION
    0       1     W write, F flush, M mark
    1       8     position on the disk, little-endian; 0 unless W
    9       8     length of what follows; 0 if F
    17      ...   the bytes written, or the mark's text
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading

from support.faultserver import Attributes, serve

HEAD = struct.Struct("<cQQ")
NAME = "disk.img"


class LoggedDisk:
    """mfusepy's operations (it looks the methods up by name) of a folder with one file."""

    use_ns = True

    def __init__(self, image: str, log: str) -> None:
        self._image = os.open(image, os.O_RDWR)
        self._log = open(log, "ab", buffering=0)  # noqa: SIM115 - as long as the process
        self._lock = threading.Lock()  # the order in the log is the order on the disk

    def command(self, command: str, argument: object) -> object:
        """Log a mark."""
        if command == "mark":
            text = str(argument).encode()
            with self._lock:
                self._log.write(HEAD.pack(b"M", 0, len(text)) + text)
        return True

    def getattr(self, path: str, fh: int | None = None) -> Attributes:
        if path == "/":
            return {"st_mode": 0o40755, "st_nlink": 2, "st_ino": 1}
        if path == f"/{NAME}":
            return {"st_mode": 0o100600, "st_nlink": 1, "st_size": os.fstat(self._image).st_size, "st_ino": 2}
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def open(self, path: str, flags: int) -> int:
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        raise OSError(errno.EPERM, "a disk has one size")

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(self._image, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        with self._lock:
            self._log.write(HEAD.pack(b"W", offset, len(data)) + data)
            return os.pwrite(self._image, data, offset)

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        with self._lock:
            self._log.write(HEAD.pack(b"F", 0, 0))


if __name__ == "__main__":
    mountpoint, control, *files = sys.argv[1:]
    disk = LoggedDisk(*files)
    serve(disk, disk.command, mountpoint, int(control), fsname="crashdisk", direct_io=True)
