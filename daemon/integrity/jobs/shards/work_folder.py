"""The folder of a worker for local copies: its own while it runs, and removed by the next one if it was killed."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_LOCK = b"lock"


@contextmanager
def make_work_folder(parent: bytes) -> Iterator[bytes]:
    """Make a folder, and remove those of workers that are gone."""
    os.makedirs(parent, mode=0o700, exist_ok=True)
    _remove_abandoned(parent)
    path = os.path.join(parent, secrets.token_hex(8).encode("ascii"))
    os.mkdir(path, 0o700)
    fd = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield path
    finally:
        os.close(fd)
        shutil.rmtree(path, ignore_errors=True)


def _remove_abandoned(parent: bytes) -> None:
    for entry in list(os.scandir(parent)):
        with suppress(OSError):  # another worker begins or ends there
            fd = os.open(os.path.join(entry.path, _LOCK), os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path)
            finally:
                os.close(fd)
