"""
A folder with everything that breaks file walkers.

``nasty_tree`` also takes it apart again, which ``shutil.rmtree`` could not: immutable flags, paths too long for any
system call, mounts inside. What a file system can't hold is left out, and so is what needs root when there is none:
the list that it yields says what is there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from support import AnyPath
from support.loopfs import unmount
from support.machine import is_privileged
from support.mountinfo import find_mounts
from support.programs import sh
from support.shapes import TIB, put, put_clone, put_deep, put_sparse

NAMES: dict[bytes, str] = {
    b"new\nline": "newline",
    b"bad\xff\xfeutf8": "invalid UTF-8",
    b"x" * 255: "255 bytes",
    ("é" * 127 + "x").encode(): "255 bytes of two-byte letters",
    b"-rf": "leading dash",
    b" lead and trail ": "spaces",
    b"tab\there": "tab",
    b"\x01\x1b[31mred\x1b[0m": "terminal escapes",
    b"quote'\"`$(touch pwned);&|<>*?[a]": "shell",
    b"back\\slash": "backslash",
    "caf\u00e9".encode(): "NFC",
    "cafe\u0301".encode(): "NFD, looks the same",
    "\u202egnp.exe".encode(): "right-to-left",
    "\U0001f4f7 photo.jpg".encode(): "emoji",
    "line\u2028separator".encode(): "line separator",
    b"CaSe": "case",
    b"case": "case",
    b"%s%n%d": "format string",
    b"{braces} {0}": "format",
    b'null,comma;"csv"': "csv",
    b"<b>html&amp;<b>": "html",
    "\ud800".encode("utf-8", "surrogatepass"): "encoded surrogate",
    b"...": "three dots",
    b".hidden": "hidden",
    b"~": "tilde",
    b"#1 100%": "hash",
    b"\r\nSubject: injected": "mail header injection",
    b"a" * 200 + b"\n.\n": "end of an SMTP message",
}

_MTIMES_NS = {
    b"1970": 0,
    b"before-1970": -(10**9),
    b"2038": 2**31 * 10**9,
    b"year-2100": 4102444800 * 10**9,
    b"year-2446": 15032385535 * 10**9,  # the last second that ext4 can hold
    b"ns": 1700000000123456789,
}
_SYMLINKS = {
    b"dangling": b"/no/such",
    b"self": b"self",
    b"loop-a": b"loop-b",
    b"loop-b": b"loop-a",
    b"to-parent": b"..",
    b"to-root": b"/",
    b"to-fifo": b"fifo",
    b"long": b"x" * 1000,  # xfs takes 1024
}

# linux/fs.h
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS, _IMMUTABLE, _APPEND_ONLY = 0x80086601, 0x40086602, 0x10, 0x20

# What a file system may refuse because it has no such thing.
_NOT_THERE = {errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.EPERM, errno.EILSEQ, errno.EXDEV, errno.EFBIG}


class Nasty(NamedTuple):
    """One thing in the tree."""

    path: bytes
    kind: str
    is_file: bool  # a regular file that a walker is to find


@contextmanager
def nasty_tree(folder: AnyPath, *, has_huge: bool = False, has_cycles: bool = False) -> Iterator[list[Nasty]]:
    """
    Build the tree in ``folder`` (made if need be), yield what is in it, and remove it.

    Args:
        folder: where.
        has_huge: with a file of 1 TiB apparent size.
        has_cycles: with a bind mount of the tree in itself (root).
    """
    builder = _Builder(os.fsencode(folder))
    try:
        builder.build(has_huge=has_huge)
        if is_privileged():
            builder.build_as_root(has_cycles=has_cycles)
        yield builder.made
    finally:
        _take_apart(builder.root)


class _Builder:
    """Puts the tree together, and keeps the list."""

    def __init__(self, root: bytes) -> None:
        self.root = os.path.abspath(root)
        self.made: list[Nasty] = []

    def build(self, *, has_huge: bool) -> None:
        """Make what everybody can make."""
        os.makedirs(self.root, exist_ok=True)
        for name, kind in NAMES.items():
            self._file(b"names", name, f"name: {kind}", put)
        self._add(b"deep", b"long", "path of 6000 bytes", partial(_put_deep_folder, levels=30, name=b"d" * 200))
        self._add(b"deep", b"many", "1500 levels", partial(_put_deep_folder, levels=1500, name=b"n"))
        self._add(b"special", b"fifo", "FIFO: opening it for reading blocks", os.mkfifo)
        self._add(b"special", b"socket", "socket", _put_socket)
        for name, target in _SYMLINKS.items():
            self._add(b"special", name, "symlink", partial(os.symlink, target))
        for name, mtime_ns in _MTIMES_NS.items():
            self._file(b"times", name, f"mtime {mtime_ns}", partial(_put_dated, mtime_ns=mtime_ns))
        for name, mode in ((b"000", 0), (b"setuid", 0o4755), (b"write-only", 0o200)):
            self._file(b"modes", name, f"mode {mode:o}", partial(_put_with_mode, mode=mode))
        self._build_contents(has_huge=has_huge)

    def build_as_root(self, *, has_cycles: bool) -> None:
        """Make what only root can make."""
        zero = partial(os.mknod, mode=stat.S_IFCHR | 0o644, device=os.makedev(1, 5))
        self._add(b"special", b"zero", "character device: never ends", zero)
        self._file(b"modes", b"immutable", "immutable", partial(_put_with_flag, flag=_IMMUTABLE))
        self._file(b"modes", b"append-only", "append-only", partial(_put_with_flag, flag=_APPEND_ONLY))
        self._file(b"modes", b"owned", "owner 12345", _put_owned)
        self._add(b"mounts", b"tmpfs", "another file system", _mount_tmpfs)
        if has_cycles:
            self._add(b"mounts", b"itself", "bind mount of the tree", partial(_mount_bind, source=self.root))

    def _build_contents(self, *, has_huge: bool) -> None:
        self._file(b"contents", b"empty", "empty", partial(put, data=b""))
        for name in (b"twin-a", b"twin-b"):
            self._file(b"contents", name, "two files of equal content", partial(put, data=b"same" * 5000))
        twin, hard = (os.path.join(self.root, b"contents", name) for name in (b"twin-a", b"hard-1"))
        self._file(b"contents", b"clone", "reflink", partial(put_clone, twin))
        self._file(b"contents", b"hard-1", "hard link", partial(put, data=os.urandom(9000)))
        for folder, name in ((b"contents", b"hard-2"), (b"names", b"hard-3")):
            self._file(folder, name, "hard link", partial(os.link, hard))
        for name, size, pieces in _find_sparse(has_huge=has_huge):
            self._file(b"contents", name, "sparse", partial(put_sparse, size_bytes=size, pieces=pieces))

    def _file(self, folder: bytes, name: bytes, kind: str, make: Callable[[bytes], object]) -> None:
        self._add(folder, name, kind, make, is_file=True)

    def _add(
        self, folder: bytes, name: bytes, kind: str, make: Callable[[bytes], object], *, is_file: bool = False
    ) -> None:
        """Make one thing, unless the file system has no such thing."""
        path = os.path.join(self.root, folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            make(path)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            if os.path.lexists(path) and is_file:
                os.unlink(path)
        else:
            self.made.append(Nasty(path, kind, is_file))


def _find_sparse(*, has_huge: bool) -> Iterator[tuple[bytes, int, list[tuple[int, bytes]]]]:
    """Yield name, size and pieces of data of the sparse files."""
    size = 10 << 20
    yield b"hole-only", size, []
    yield b"hole-start", size, [(size - 3, b"end")]
    yield b"hole-end", size, [(0, b"start")]
    yield b"hole-middle", size, [(0, b"start"), (size // 2, b"middle")]
    yield b"4-gib-and-1", (4 << 30) + 1, [((4 << 30) - 4096, os.urandom(4097))]
    if has_huge:
        mib = 1 << 20
        yield b"1-tib", TIB, [(at, os.urandom(mib)) for at in (0, TIB // 2, TIB - mib)]


def _put_deep_folder(path: bytes, levels: int, name: bytes) -> None:
    os.mkdir(path)
    put_deep(path, levels, name)


def _put_socket(path: bytes) -> None:
    folder = os.open(os.path.dirname(path), os.O_RDONLY)  # the address of a socket is at most 108 bytes long
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{folder}/".encode() + os.path.basename(path))
    finally:
        os.close(folder)


def _put_dated(path: bytes, mtime_ns: int) -> None:
    put(path)
    os.utime(path, ns=(mtime_ns, mtime_ns))


def _put_with_mode(path: bytes, mode: int) -> None:
    put(path)
    os.chmod(path, mode)


def _put_with_flag(path: bytes, flag: int) -> None:
    put(path)
    _set_flag(path, flag)


def _put_owned(path: bytes) -> None:
    put(path)
    os.chown(path, 12345, 12345)


def _mount_tmpfs(path: bytes) -> None:
    os.mkdir(path)
    sh("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", path)
    put(os.path.join(path, b"on-tmpfs"))


def _mount_bind(path: bytes, source: bytes) -> None:
    os.mkdir(path)
    sh("mount", "--bind", source, path)


def _set_flag(path: bytes, flag: int, *, is_on: bool = True) -> None:
    """Set or clear an inode flag, as chattr does."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        buffer = bytearray(8)
        fcntl.ioctl(fd, _FS_IOC_GETFLAGS, buffer, True)
        flags: int = struct.unpack("l", buffer)[0]
        fcntl.ioctl(fd, _FS_IOC_SETFLAGS, struct.pack("l", flags | flag if is_on else flags & ~flag))
    finally:
        os.close(fd)


def _take_apart(root: bytes) -> None:
    """Remove the tree: mounts, flags, and then all by coreutils' rm, which walks by openat to any depth."""
    for mount in reversed(list(find_mounts())):
        if mount.point.startswith(root + b"/"):
            unmount(mount.point)
    for name, flag in ((b"immutable", _IMMUTABLE), (b"append-only", _APPEND_ONLY)):
        path = os.path.join(root, b"modes", name)
        if is_privileged() and os.path.exists(path):
            _set_flag(path, flag, is_on=False)
    subprocess.run(["rm", "-rf", "--one-file-system", "--", root], check=True)
