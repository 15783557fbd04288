"""The files of the self-test: a canary to be damaged and one to be left alone, in a folder that goes when it ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from integrity.errors import ConfigError, show_path
from integrity.model import Witness

CANARY = b"canary"
UNTOUCHED = b"untouched"
BAD_BLOCK = 1

_MIB = 1 << 20
BAD_BYTE = BAD_BLOCK * _MIB + 12345
_SIZE_BYTES = 3 * _MIB - 4000  # three blocks, the last one not full

_ROOT = b"integrity-self-test"  # stands in the subject of the mail
_PARENT = "/var/tmp"  # noqa: S108 - made by mkdtemp; it lies on a disk, where /tmp is often memory (file-hierarchy(7))


@contextmanager
def make_folder() -> Iterator[bytes]:
    """
    Make a folder, and remove it with all that is in it at the end.

    Raises:
        ConfigError: it can't be made.
    """
    parent = os.environ.get("TMPDIR") or _PARENT
    with _writing(os.fsencode(parent)):
        made = tempfile.TemporaryDirectory(prefix="integrity-", dir=parent)
    with made as name:
        yield os.path.realpath(os.fsencode(name))


def plant(folder: bytes) -> bytes:
    """
    Write the files, and return the folder in which they are.

    Raises:
        ConfigError: they can't be written.
    """
    root = folder + b"/" + _ROOT
    with _writing(folder):
        os.mkdir(root)
        for name in (CANARY, UNTOUCHED):
            with open(root + b"/" + name, "xb") as file:
                file.write(os.urandom(_SIZE_BYTES))
                file.flush()
                os.fsync(file.fileno())
    return root


def flip_bit(root: bytes) -> None:
    """
    Rewrite a bit of the canary's BAD_BYTE, on the disk, too.

    Raises:
        ConfigError: it can't be written.
    """
    with _writing(root), open(root + b"/" + CANARY, "r+b") as file:
        file.seek(BAD_BYTE)
        (byte,) = file.read(1)
        file.seek(BAD_BYTE)
        file.write(bytes([byte ^ 1]))
        file.flush()
        os.fsync(file.fileno())


def look(root: bytes) -> Witness:
    """Tell what stat says of the canary now."""
    found = os.stat(root + b"/" + CANARY, follow_symlinks=False)
    return Witness(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@contextmanager
def _writing(folder: bytes) -> Iterator[None]:
    """Say of a folder that can't be written into what to do."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{show_path(folder)}: the self-test can't write there: {error.strerror}; name another folder with"
            " TMPDIR=/FOLDER"
        ) from error
