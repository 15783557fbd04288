"""
A folder whose files fail where and when a test says: FUSE passthrough with rules that change at run time.

    with FaultFS(source) as faulty:
        rule = faulty.add(Rule("read", path="*/b.jpg", errno=errno.EIO, offset=8192, length=4096))
        ...                         # work on faulty.mnt
        faulty.clear(rule)          # repaired
        faulty.get_fired()          # what was hit

It stands in for a dying disk, for NFS and for CIFS. The file system itself runs in a process of its own
(``support.faultserver``), which ends with the test even if the test is killed. A rule is in force when ``add`` returns.

By default (direct_io) each read(2) arrives as it was made and nothing is cached, so faults show at once; but mapping a
file shared fails (SQLite's WAL needs ``is_cached=True``), and a hung call can't even be killed, as with a dead disk.
With ``is_cached=True`` the kernel reads whole pages and ahead, then page by page: an EIO is 4 KiB-exact.
"""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, NewType

from support import AnyPath
from support.loopfs import unmount
from support.mountinfo import is_mounted
from support.waiting import wait_until
from support.warmstart import get_warm_start

RuleId = NewType("RuleId", int)

_START_TIMEOUT_S = 30  # a Python that starts on two busy cores


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """What a rule does to the calls that it matches, and to which of them."""

    path: str = "*"  # glob on the path inside the mount ("/dir/b.jpg"); "*" matches "/" too
    offset: int = 0  # only reads and writes that touch [offset, offset + length)
    length: int = 0  # 0: to the end
    skip: int = 0  # not the first so many calls that match
    count: int = 0  # only so many calls; 0: all
    errno: int = 0  # fail with it. getattr with ENOENT: the name is still listed, "vanished between"
    short: int = -1  # a read returns, a write takes, at most so many bytes
    eof: int = -1  # a read finds the end here though stat says longer: truncated under the reader
    delay_s: float = 0  # each call takes so much longer
    rate_bytes_per_s: float = 0  # one slow spindle: calls one after another, so many bytes a second in all ...
    seek_s: float = 0  # ... and so much more whenever a read does not go on where the last one ended
    flip: int = -1  # one bit of this byte of the file is flipped in what a read returns
    bit: int = 0
    is_hung: bool = False  # block until the rule is cleared
    is_hidden: bool = False  # with readdir: leave out the names that match
    is_empty: bool = False  # with readdir: list nothing


@dataclass(frozen=True, slots=True)
class Rule(_Kind):
    """
    What goes wrong. All keywords but ``op`` have defaults that mean "no".

    ``op`` is the call: read, write, open, getattr, opendir, readdir, readlink, create, fsync, truncate, unlink, rename,
    mkdir, rmdir, link, symlink, mknod, chmod, chown, utimens, access, statfs; or "*" for all.
    A read that starts before ``offset`` and touches it fails as a whole, as from a disk's driver.
    Rules match the path that was used: the other name of a hard link is not faulty.
    """

    op: str = dataclasses.field(kw_only=False)


class Fired(NamedTuple):
    """One call that a rule was applied to."""

    rule: RuleId
    op: str
    path: str
    offset: int
    size_bytes: int


class FuseServer:
    """
    A FUSE file system in a process of its own, mounted at ``mnt``; the process ends when this one does.

    The two talk over a socket pair, one JSON value a line: a command, then its answer. The first line comes from the
    server when it is mounted.
    """

    def __init__(self, module: str, arguments: Sequence[AnyPath]) -> None:
        """
        Prepare the mount point.

        Args:
            module: run as by ``python -m``; gets the mount point, the socket's descriptor, and ``arguments``.
            arguments: the module's own.
        """
        self._module, self._arguments = module, [os.fsdecode(argument) for argument in arguments]
        self._home = Path(tempfile.mkdtemp(prefix="fuse-"))
        self.folder = self._home / "mnt"
        self.folder.mkdir()
        self.mnt = os.fsencode(self.folder)

    def start(self) -> None:
        """
        Run the server and wait until it is mounted.

        Raises:
            RuntimeError: it ended instead; with its words.
        """
        ours, theirs = socket.socketpair()
        with theirs, open(self._home / "stderr", "wb") as stderr:
            # A session of its own: a Ctrl-C is for the test, which then ends the server in order.
            self._process = get_warm_start(has_services=True).start(
                [str(self.folder), "0", *self._arguments],
                os.environ,
                stderr.fileno(),
                stderr.fileno(),
                stdin=theirs.fileno(),
                is_leader=True,
                module=self._module,
            )
        ours.settimeout(_START_TIMEOUT_S)
        self._socket = ours
        self._lines = ours.makefile("rb")
        if not self._lines.readline():
            self._process.wait()
            words = self._get_words()
            self._remove()
            raise RuntimeError(f"{self._module} did not mount: {words}")

    def ask(self, command: str, argument: object = None) -> object:
        """
        Send a command and return the answer; it is in force then.

        Raises:
            RuntimeError: the server ended instead; with its words.
        """
        self._socket.sendall(json.dumps([command, argument]).encode() + b"\n")
        line = self._lines.readline()
        if not line:
            raise RuntimeError(f"{self._module} ended: {self._get_words()}")
        answer: object = json.loads(line)
        return answer

    def kill(self) -> None:
        """End the server at once: all calls, hung ones too, fail with ECONNABORTED, later ones with ENOTCONN."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Unmount and wait for the server's end."""
        try:
            if is_mounted(self.mnt):
                unmount(self.mnt)
        finally:
            self._lines.close()
            self._socket.close()  # the server ends at the latest when nobody holds the other end
            wait_until(lambda: self._process.poll() is not None, "end of the FUSE server")
            self._remove()

    def _get_words(self) -> str:
        """Return what the server printed."""
        return (self._home / "stderr").read_text(errors="replace").strip()

    def _remove(self) -> None:
        """Remove the mount point; never a tree: a mount that is still there must not be emptied."""
        self._lines.close()
        self._socket.close()
        (self._home / "stderr").unlink()
        self.folder.rmdir()
        self._home.rmdir()


class FaultFS:
    """
    ``source`` seen through a file system with faults.

    Attributes:
        mnt: where it is mounted, in bytes.
        folder: the same as a Path.
    """

    def __init__(self, source: AnyPath, *, is_cached: bool = False) -> None:
        flags = ["--cached"] if is_cached else []
        self._server = FuseServer("support.faultserver", [os.path.abspath(os.fsencode(source)), *flags])
        self.folder, self.mnt = self._server.folder, self._server.mnt
        self._last_rule = 0

    def __enter__(self) -> FaultFS:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def path(self, name: AnyPath) -> bytes:
        """Return the absolute path of ``name``, a path relative to the mount point."""
        return os.path.join(self.mnt, os.fsencode(name))

    def add(self, rule: Rule) -> RuleId:
        """Put a rule in force."""
        self._last_rule += 1
        self._server.ask("add", {"id": self._last_rule, **dataclasses.asdict(rule)})
        return RuleId(self._last_rule)

    def clear(self, rule: RuleId | None = None) -> None:
        """Take one rule back, or all; calls that hang because of it go on."""
        self._server.ask("clear", rule)

    def get_fired(self) -> list[Fired]:
        """Return the calls that rules were applied to, in order."""
        answer = self._server.ask("fired")
        assert isinstance(answer, list)
        return [Fired(*call) for call in answer]

    def kill(self) -> None:
        """Let the file system die, mounted as it is: ENOTCONN on everything from now on."""
        self._server.kill()
