"""Write a file so that at any moment either the former one or the whole new one stands under its name."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from types import TracebackType

from integrity.errors import AppError, ConfigError, show_path

_CHUNK_BYTES = 1 << 20


class Replacement:
    """
    What shall become the content of a file, or replace that of one.

    A context manager: at the end of the block it is brought to the disk and takes the name, or, if the block is left by
    an exception, it is gone. A symbolic link stays, and what it points to is replaced.

    Args:
        path: of the file.

    Raises:
        ConfigError: there can't be such a file.
        AppError: it can't be written: the disk is full, say. The former file is as it was.
    """

    def __init__(self, path: bytes) -> None:
        self._path = os.path.realpath(path)
        self._folder = os.path.dirname(self._path)
        # Not made of the name, which may be as long as names can be; no scan records a file that is called so.
        self._temporary = os.path.join(self._folder, b".export.integrity-" + secrets.token_hex(8).encode("ascii"))
        try:
            mode = _find_mode(self._path)
            self._fd = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            if mode is not None:
                os.fchmod(self._fd, mode)
        except OSError as error:
            raise ConfigError(f"{show_path(path)}: can't be written: {error.strerror}") from error
        self._chunks: list[bytes] = []
        self._size = 0

    def put(self, data: bytes) -> None:
        """Append."""
        self._chunks.append(data)
        self._size += len(data)
        if self._size >= _CHUNK_BYTES:
            self._write()

    def __enter__(self) -> Replacement:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_in_place = False
        try:
            if kind is None:
                self._take_place()
                is_in_place = True
        finally:
            os.close(self._fd)
            if not is_in_place:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._temporary)

    def _take_place(self) -> None:
        self._write()
        try:
            os.fsync(self._fd)
            os.rename(self._temporary, self._path)
            folder_fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder_fd)
            finally:
                os.close(folder_fd)
        except OSError as error:
            raise self._explain(error) from error

    def _write(self) -> None:
        data, self._chunks, self._size = memoryview(b"".join(self._chunks)), [], 0
        try:
            while data:
                data = data[os.write(self._fd, data) :]
        except OSError as error:
            raise self._explain(error) from error

    def _explain(self, error: OSError) -> AppError:
        return AppError(f"{show_path(self._path)}: can't be written: {error.strerror}; what was there is as it was")


def _find_mode(path: bytes) -> int | None:
    """Find the permissions of the file that is to be replaced; None if there is none."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{show_path(path)}: is no regular file, so it can't be replaced; write to standard output")
    return stat.S_IMODE(mode)
