"""
List and read a folder by SFTP, which every SSH server has, also without a shell.

Version 3 of the protocol, which OpenSSH implements, has times in whole seconds.
"""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncGenerator, Iterator
from typing import Final

import asyncssh

from integrity.copies.filenames import find_fault
from integrity.copies.protocol import CopyEntry, Trouble
from integrity.copies.ssh.connection import Line
from integrity.errors import CopyUnreachable, ReadError, ReadInterrupted, Unreadable, Unstable, Vanished, show_path

_SLOWEST_BYTES_PER_S: Final = 16_384
_NAMES_AT_ONCE: Final = 1000
_GONE = (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath)


class SftpFolder:
    """
    One folder on the other side.

    Args:
        line: an open connection.
        client: an SFTP session on it whose paths are bytes.
        folder: absolute, as the server resolved it.
    """

    def __init__(self, line: Line, client: asyncssh.SFTPClient, folder: bytes) -> None:
        self._line = line
        self._client = client
        self._folder = folder
        self._last_parent: bytes | None = None  # known to lie in the folder

    def list(self, prefix: bytes) -> Iterator[CopyEntry | Trouble]:
        """List the files below the prefix."""
        try:
            found = self._find_start(prefix)
        except asyncssh.SFTPError as error:
            yield Trouble(prefix, _say(error))
            return
        if isinstance(found, CopyEntry):
            yield found
        elif found:
            yield from self._walk(prefix)

    def _find_start(self, prefix: bytes) -> CopyEntry | bool:
        """Return what the prefix is: a file, a folder of the copy (True), or nothing that is listed."""
        if not prefix:
            return True
        try:
            if not self._is_inside(prefix):
                return False
            attrs = self._line.run(self._client.lstat(self._join(prefix)))
        except _GONE:
            return False
        if attrs.type == asyncssh.FILEXFER_TYPE_REGULAR:
            return _make_entry(prefix, attrs)
        return attrs.type == asyncssh.FILEXFER_TYPE_DIRECTORY

    def _walk(self, start: bytes) -> Iterator[CopyEntry | Trouble]:
        waiting = [start]  # siblings of the folders above the current one, not the whole tree
        while waiting:
            folder = waiting.pop()
            try:
                for name in self._names(folder):
                    found = self._look(folder, name)
                    if isinstance(found, bytes):
                        waiting.append(found)
                    elif found is not None:
                        yield found
            except asyncssh.SFTPError as error:
                yield Trouble(folder, _say(error))

    def _names(self, folder: bytes) -> Iterator[asyncssh.SFTPName]:
        scan = self._client.scandir(self._join(folder))
        assert isinstance(scan, AsyncGenerator)

        async def take() -> list[asyncssh.SFTPName]:
            batch = []
            async for name in scan:
                batch.append(name)
                if len(batch) == _NAMES_AT_ONCE:
                    break
            return batch

        try:
            while batch := self._line.run(take()):
                yield from batch
        finally:
            if self._line.is_open:
                self._line.run(scan.aclose())

    def _look(self, folder: bytes, found: asyncssh.SFTPName) -> CopyEntry | Trouble | bytes | None:
        """Return what a name in a folder is: a file, a Trouble, the path of a folder, or nothing that is listed."""
        name = found.filename if isinstance(found.filename, bytes) else found.filename.encode("utf-8")
        if name in (b".", b".."):
            return None
        path = folder + b"/" + name if folder else name
        fault = "has a slash in it" if b"/" in name else find_fault(path)
        if fault is not None:
            return Trouble(path, f"its name {fault}")
        attrs = found.attrs
        if attrs.type == asyncssh.FILEXFER_TYPE_UNKNOWN:
            try:
                attrs = self._line.run(self._client.lstat(self._join(path)))
            except asyncssh.SFTPError as error:
                return Trouble(path, _say(error))
        if attrs.type == asyncssh.FILEXFER_TYPE_DIRECTORY:
            return path
        return _make_entry(path, attrs) if attrs.type == asyncssh.FILEXFER_TYPE_REGULAR else None

    def open(self, path: bytes) -> SftpFile:
        """Open one file; see ``Copy.open``."""
        place = self._join(path)
        try:
            if not self._is_inside(path):
                raise Vanished(f"{self._show(path)} lies behind a symbolic link, so it is not a file of this copy")
            attrs = self._line.run(self._client.lstat(place))
            if attrs.type != asyncssh.FILEXFER_TYPE_REGULAR:
                raise Vanished(f"{self._show(path)} is not a regular file")
            file = self._line.run(self._client.open(place, "rb", encoding=None))
            attrs = self._line.run(file.stat())
        except asyncssh.SFTPError as error:
            raise _make_read_error(self._show(path), error) from error
        return SftpFile(self._line, file, self._show(path), attrs)

    def _is_inside(self, path: bytes) -> bool:
        """Return whether a path is reached without a symbolic link, which may lead anywhere."""
        parent, _, _ = path.rpartition(b"/")
        if parent and parent != self._last_parent:
            real = self._line.run(self._client.realpath(self._join(parent)))
            if real != self._join(parent):
                return False
            self._last_parent = parent
        return True

    def _join(self, path: bytes) -> bytes:
        return self._folder.rstrip(b"/") + b"/" + path if path else self._folder

    def _show(self, path: bytes) -> str:
        return f"{self._line.address.shown.rstrip('/')}/{show_path(path)}"


class SftpFile:
    """One open file; see ``CopyFile``."""

    def __init__(self, line: Line, file: asyncssh.SFTPClientFile, shown: str, attrs: asyncssh.SFTPAttrs) -> None:
        self._line = line
        self._file: asyncssh.SFTPClientFile | None = file
        self._shown = shown
        self._version = (attrs.size, attrs.mtime)
        self.size_bytes = attrs.size or 0
        self.stat: os.stat_result | None = None

    def read(self, offset: int, length: int) -> bytes:
        """Read from any offset; see ``CopyFile.read``."""
        assert self._file is not None, "closed"
        if length == 0:
            return b""
        patience_s = self._line.timeout_s + length / _SLOWEST_BYTES_PER_S
        try:
            data, attrs = self._line.run(_read(self._file, offset, length), patience_s=patience_s)
        except asyncssh.SFTPError as error:
            raise _make_read_error(self._shown, error, (offset, length)) from error
        if (attrs.size, attrs.mtime) != self._version:
            raise Unstable(f"{self._shown} changed while it was read; compare again")
        if len(data) != max(0, min(length, self.size_bytes - offset)):
            raise Unreadable(
                f"cannot read {self._shown}: {len(data)} bytes came where others are",
                errno=errno.EIO,
                ranges=((offset, length),),
            )
        return data

    def close(self) -> None:
        """Close the file; may be called twice, and after the connection was lost."""
        file, self._file = self._file, None
        if file is None or not self._line.is_open:
            return
        try:
            self._line.run(file.close())
        except (asyncssh.SFTPError, CopyUnreachable, ReadInterrupted):
            return  # nothing was written, so nothing is lost; the next request raises the error


async def _read(file: asyncssh.SFTPClientFile, offset: int, length: int) -> tuple[bytes, asyncssh.SFTPAttrs]:
    """Read, then check that the version is the same; both requests are sent at once."""
    data: object = await file.read(length, offset)
    assert isinstance(data, bytes)  # as the file was opened without an encoding
    return data, await file.stat()


def open_sftp(line: Line, folder: bytes) -> SftpFolder | None:
    """
    Start SFTP; None if the server has none, or has no such folder.

    Raises:
        CopyUnreachable: the connection was lost.
    """
    try:
        client = line.run(line.connection.start_sftp_client(path_encoding=None))
    except (asyncssh.SFTPError, asyncssh.ChannelOpenError):
        return None
    except CopyUnreachable as error:
        # A program that is no SFTP server answers nonsense or hangs up. If the connection is lost, later requests fail.
        if isinstance(error.__cause__, asyncssh.SFTPError):
            return None
        raise
    try:
        real = line.run(client.realpath(folder))
        attrs = line.run(client.stat(real))
    except asyncssh.SFTPError:
        return None
    return SftpFolder(line, client, real) if attrs.type == asyncssh.FILEXFER_TYPE_DIRECTORY else None


def _make_entry(path: bytes, attrs: asyncssh.SFTPAttrs) -> CopyEntry:
    return CopyEntry(path, attrs.size, None if attrs.mtime is None else attrs.mtime * 1_000_000_000)


def _make_read_error(shown: str, error: asyncssh.SFTPError, span: tuple[int, int] | None = None) -> ReadError:
    if isinstance(error, _GONE):
        return Vanished(f"{shown} is not there (any more); compare again")
    code = errno.EACCES if isinstance(error, asyncssh.SFTPPermissionDenied) else errno.EIO
    return Unreadable(f"cannot read {shown}: {_say(error)}", errno=code, ranges=(span,) if span else ())


def _say(error: asyncssh.SFTPError) -> str:
    if isinstance(error, asyncssh.SFTPPermissionDenied):
        return "the other side denies the permission; let the user who logs in read it"
    return f"the other side says: {error.reason or 'failure'}"
