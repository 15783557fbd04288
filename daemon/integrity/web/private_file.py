"""Replace a file that only the user of the page may read."""

from __future__ import annotations

import os
from contextlib import suppress


def replace_private_file(path: bytes, content: bytes) -> None:
    """
    Write a file with mode 0600 and put it in the place of the former one, whole or not at all; make its folder.

    Raises:
        OSError: it can't be written.
    """
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    draft = path + b".partial"
    with suppress(FileNotFoundError):
        os.unlink(draft)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        if os.geteuid() == 0:  # root writes for a page that runs as another user
            owner = os.stat(folder)
            os.fchown(fd, owner.st_uid, owner.st_gid)
        file.write(content)
        file.flush()
        os.fsync(fd)
    os.replace(draft, path)
