"""
The file system behind ``support.faultfs``: passes each call on to a real folder, unless a rule says otherwise.

Run as ``python -m support.faultserver MOUNTPOINT SOCKET SOURCE [--cached]`` by ``FuseServer``.
"""

from __future__ import annotations

import fnmatch
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable

import mfusepy  # type: ignore[import-untyped]

from support.faultfs import Fired, Rule, RuleId

Attributes = dict[str, int]
"""What mfusepy takes for a struct stat or statvfs: its own form, so not a record of ours."""

_STAT_FIELDS = ("st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_rdev")
_STATVFS_FIELDS = (
    "f_bavail",
    "f_bfree",
    "f_blocks",
    "f_bsize",
    "f_favail",
    "f_ffree",
    "f_files",
    "f_frsize",
    "f_namemax",
)
# glibc's readdir drops entries whose st_ino is 0.
_DOTS = [(name, {"st_ino": 1, "st_mode": 0o40755}, 0) for name in (".", "..")]


class Rules:
    """The rules in force, shared by the threads of the file system and the one that takes commands."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rules: dict[RuleId, Rule] = {}
        self._matches: dict[RuleId, int] = {}
        self._fired: list[Fired] = []
        self._spindle = threading.Lock()
        self._head: tuple[str, int] | None = None

    def command(self, command: str, argument: object) -> object:
        """Carry out one command of ``FaultFS`` and return its answer."""
        with self._changed:
            if command == "fired":
                return self._fired
            if command == "add":
                assert isinstance(argument, dict)
                number = RuleId(argument.pop("id"))
                self._rules[number] = Rule(**argument)
            elif argument is None:
                self._rules.clear()
            else:
                assert isinstance(argument, int)
                self._rules.pop(RuleId(argument), None)
            self._changed.notify_all()
            return True

    def find_hidden(self) -> list[str]:
        """Return the globs whose names readdir leaves out, whatever the folder."""
        with self._changed:
            return [rule.path for rule in self._rules.values() if rule.is_hidden]

    def apply(self, op: str, path: str, offset: int = -1, size: int = 0) -> list[Rule]:
        """
        Delay, block or fail a call as the rules say.

        Returns:
            The rules that matched, for what must be done to the call's result.

        Raises:
            OSError: a rule says so.
        """
        matching = self._match(op, path, offset, size)
        for number, rule in matching:
            time.sleep(rule.delay_s)
            if rule.rate_bytes_per_s or rule.seek_s:
                self._wait_for_spindle(rule, path, offset, size)
            if rule.is_hung:
                self._wait_until_cleared(number)
            if rule.errno:
                raise OSError(rule.errno, os.strerror(rule.errno), path)
        return [rule for _, rule in matching]

    def _wait_until_cleared(self, number: RuleId) -> None:
        """Block while a rule is in force."""
        with self._changed:
            self._changed.wait_for(lambda: number not in self._rules)

    def _match(self, op: str, path: str, offset: int, size: int) -> list[tuple[RuleId, Rule]]:
        """Find the rules that apply to a call; count and note it."""
        found = []
        with self._changed:
            for number, rule in self._rules.items():
                if rule.op not in (op, "*") or not fnmatch.fnmatchcase(path, rule.path):
                    continue
                is_before = offset >= 0 and offset + size <= rule.offset
                is_behind = offset >= 0 and rule.length > 0 and offset >= rule.offset + rule.length
                if is_before or is_behind:
                    continue
                nth = self._matches[number] = self._matches.get(number, 0) + 1
                if nth > rule.skip and (rule.count == 0 or nth <= rule.skip + rule.count):
                    found.append((number, rule))
                    self._fired.append(Fired(number, op, path, offset, size))
        return found

    def _wait_for_spindle(self, rule: Rule, path: str, offset: int, size: int) -> None:
        """Take as long as one disk arm would, one call after another."""
        with self._spindle:
            seek_s = 0 if self._head == (path, offset) else rule.seek_s
            time.sleep(seek_s + (size / rule.rate_bytes_per_s if rule.rate_bytes_per_s else 0))
            self._head = (path, offset + size)


def damage(data: bytes, offset: int, rules: Iterable[Rule]) -> bytes:
    """Return what a read of ``data`` at ``offset`` gives under ``rules``."""
    for rule in rules:
        if offset <= rule.flip < offset + len(data):
            flipped = bytearray(data)
            flipped[rule.flip - offset] ^= 1 << rule.bit
            data = bytes(flipped)
        if rule.short >= 0:
            data = data[: rule.short]
        if rule.eof >= 0:
            data = data[: max(0, rule.eof - offset)]
    return data


class PassThrough:
    """mfusepy's operations (it looks the methods up by name), each passed on to the source below ``source``."""

    use_ns = True

    def __init__(self, source: bytes, rules: Rules) -> None:
        self._source, self._rules = source, rules

    def _real(self, path: str) -> bytes:
        return self._source + os.fsencode(path)

    def getattr(self, path: str, fh: int | None = None) -> Attributes:
        self._rules.apply("getattr", path)
        stat = os.lstat(self._real(path)) if fh is None else os.fstat(fh)
        times = {"st_atime": stat.st_atime_ns, "st_mtime": stat.st_mtime_ns, "st_ctime": stat.st_ctime_ns}
        return {name: getattr(stat, name) for name in _STAT_FIELDS} | times

    def opendir(self, path: str) -> int:
        self._rules.apply("opendir", path)
        return 0

    def readdir(self, path: str, fh: int) -> list[tuple[str, Attributes, int]]:
        rules = self._rules.apply("readdir", path)
        if any(rule.is_empty for rule in rules):
            return _DOTS
        hidden, base = self._rules.find_hidden(), path.rstrip("/")
        with os.scandir(self._real(path)) as entries:
            return _DOTS + [
                (os.fsdecode(entry.name), {"st_ino": entry.inode(), "st_mode": os.lstat(entry.path).st_mode}, 0)
                for entry in entries
                if not any(fnmatch.fnmatchcase(f"{base}/{os.fsdecode(entry.name)}", glob) for glob in hidden)
            ]

    def open(self, path: str, flags: int) -> int:
        self._rules.apply("open", path)
        return os.open(self._real(path), flags & ~(os.O_NOFOLLOW | os.O_DIRECT))

    def create(self, path: str, mode: int, flags: int) -> int:
        self._rules.apply("create", path)
        return os.open(self._real(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        rules = self._rules.apply("read", path, offset, size)
        return damage(os.pread(fh, size, offset), offset, rules)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        for rule in self._rules.apply("write", path, offset, len(data)):
            if rule.short >= 0:
                data = data[: rule.short]
        return os.pwrite(fh, data, offset)

    def truncate(self, path: str, length: int, fh: int | None = None) -> None:
        self._rules.apply("truncate", path)
        os.truncate(self._real(path) if fh is None else fh, length)

    def fsync(self, path: str, datasync: int, fh: int) -> None:
        self._rules.apply("fsync", path)
        os.fsync(fh)

    def release(self, path: str, fh: int) -> None:
        os.close(fh)

    def readlink(self, path: str) -> str:
        self._rules.apply("readlink", path)
        return os.fsdecode(os.readlink(self._real(path)))

    def mkdir(self, path: str, mode: int) -> None:
        self._rules.apply("mkdir", path)
        os.mkdir(self._real(path), mode)

    def rmdir(self, path: str) -> None:
        self._rules.apply("rmdir", path)
        os.rmdir(self._real(path))

    def unlink(self, path: str) -> None:
        self._rules.apply("unlink", path)
        os.unlink(self._real(path))

    def rename(self, old: str, new: str) -> None:
        self._rules.apply("rename", old)
        os.rename(self._real(old), self._real(new))

    def link(self, target: str, source: str) -> None:
        self._rules.apply("link", target)
        os.link(self._real(source), self._real(target))

    def symlink(self, target: str, source: str) -> None:
        self._rules.apply("symlink", target)
        os.symlink(os.fsencode(source), self._real(target))

    def mknod(self, path: str, mode: int, device: int) -> None:
        self._rules.apply("mknod", path)
        os.mknod(self._real(path), mode, device)

    def chmod(self, path: str, mode: int) -> None:
        self._rules.apply("chmod", path)
        os.chmod(self._real(path), mode)

    def chown(self, path: str, uid: int, gid: int) -> None:
        self._rules.apply("chown", path)
        # mfusepy hands "leave as it is" on as the unsigned number
        uid, gid = (-1 if number in (-1, 0xFFFF_FFFF) else number for number in (uid, gid))
        os.chown(self._real(path), uid, gid, follow_symlinks=False)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        self._rules.apply("utimens", path)
        if times is None:
            os.utime(self._real(path), follow_symlinks=False)
        else:
            os.utime(self._real(path), ns=times, follow_symlinks=False)

    def access(self, path: str, mode: int) -> None:
        self._rules.apply("access", path)  # the kernel checks permissions itself (default_permissions)

    def statfs(self, path: str) -> Attributes:
        self._rules.apply("statfs", path)
        status = os.statvfs(self._real(path))
        return {name: getattr(status, name) for name in _STATVFS_FIELDS}

    def listxattr(self, path: str) -> list[str]:
        return os.listxattr(self._real(path), follow_symlinks=False)

    def getxattr(self, path: str, name: str, position: int = 0) -> bytes:
        return os.getxattr(self._real(path), name, follow_symlinks=False)


def serve(
    operations: object, command: Callable[[str, object], object], mountpoint: str, control: int, **options: object
) -> None:
    """
    Mount and serve until unmounted; a test that is killed leaves nothing behind.

    Args:
        operations: what mfusepy asks; it looks the methods up by name.
        command: carries out a command of the test and returns what JSON can carry.
        mountpoint: where.
        control: descriptor of a socket: one JSON line in, one out; the first says that all is ready.
        options: of the mount.
    """
    test = socket.socket(fileno=control)

    def serve_commands() -> None:
        try:
            with test, test.makefile("rb") as lines:
                for line in lines:
                    test.sendall(json.dumps(command(*json.loads(line))).encode() + b"\n")
        finally:
            command("clear", None)
            subprocess.run(["umount", "-l", mountpoint], stderr=subprocess.DEVNULL, check=False)

    def init(path: str) -> None:
        threading.Thread(target=serve_commands, daemon=True).start()
        test.sendall(b"true\n")

    operations.init = init  # type: ignore[attr-defined]
    mfusepy.FUSE(operations, mountpoint, foreground=True, use_ino=True, **options)


def main() -> None:
    """Mount and serve until unmounted."""
    mountpoint, control, source, *flags = sys.argv[1:]
    rules = Rules()
    # Time-outs of 0: every stat(2) reaches us, so a getattr rule acts at once. 64 threads: hung calls must not block
    # the others.
    serve(
        PassThrough(os.fsencode(source), rules),
        rules.command,
        mountpoint,
        int(control),
        allow_other=True,
        default_permissions=True,
        fsname="faultfs",
        direct_io="--cached" not in flags,
        attr_timeout=0,
        entry_timeout=0,
        negative_timeout=0,
        max_threads=64,
    )


if __name__ == "__main__":
    main()
