"""A small tree with a past, for campaigns: damage that was found, decided over, and damage that nobody has met yet."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path

from campaigns.facts import tame_text
from integrity.catalog.db import Connection
from support import AnyPath
from support.bitrot import rot
from support.cli import Box, Completed, run_here
from support.isolation import isolate
from support.killpoints import run_forked, sleep_into_next_second
from support.loopfs import LoopFS
from support.planted import age
from support.programs import sh
from support.shapes import put

BLOCK = 64 << 10
_LARGE_BYTES = 136 << 20
"""Of a file that is read in two parts, if that is asked for."""
_CONFIG = """
[defaults]
block_size = "64KiB"
"""
_SERVICE = """
[[root]]
path = "{root}"
block_size = "64KiB"
[schedule]
scrub = "00:00-23:59"
[alerts]
command = ["false"]
group = "0s"
"""
_HAS_FAILED = "SELECT (SELECT count(*) FROM delivery WHERE attempts) AND (SELECT count(*) FROM schedule_run)"


def run_in_memory() -> None:
    """Prepare a campaign that is run by hand: mounts of its own, and files in memory where there is room for them."""
    isolate()
    if os.path.ismount("/dev/shm"):
        tempfile.tempdir = "/dev/shm"


class World:
    """
    An ext4 with a root, a copy of it and a folder with a manifest, and beside it a home with the catalog.

    A state of all of it can be saved and put back, as often as is wanted.

    Attributes:
        box: of the program.
        fs: the file system.
        root: the watched folder.
        copy: a backup of it, one file of which is not what it should be.
        imported: a folder with a manifest that no catalog knows.
        planted: files that were damaged after they were last looked at.
        start: all that the catalog notes from now on has a later time (seconds).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.box = Box(folder / "home")
        self.start = 0

    def __enter__(self) -> World:
        self.fs = LoopFS("ext4", size_bytes=400 << 20).__enter__()
        self.root, self.copy = self.fs.folder / "data", self.fs.folder / "copy"
        self.imported = self.fs.folder / "imported"
        self.planted = [self.root / "a/planted.bin", self.root / "large.bin"]
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.fs.__exit__(kind, error, trace)

    def run(self, *args: AnyPath, expect: int | None = None) -> Completed:
        """Run the program in this process."""
        done = run_here(args, self.box.environment)
        assert expect is None or done.code == expect, f"{args}: exit {done.code}: {done.stdout}{done.stderr}"
        return done

    def make(self, *, is_served: bool = False) -> None:
        """Make the tree and its past; with a service, that tells it in vain, and readings that were broken off."""
        self.box.configure(_CONFIG)
        self._write_files(random.Random(7))
        if is_served:
            put(self.root / "larger.bin", random.Random(8).randbytes(_LARGE_BYTES))
        self.run("scan", self.root, expect=0)
        self.run("scrub", self.root, expect=0)
        self.run("gate", self.root, expect=0)
        shutil.copytree(self.root, self.copy)
        put(self.copy / "a/keep1.bin", b"not what it was")
        for name in ("b/accepted.bin", "b/acked.bin", "b/newer.bin"):
            rot(self.root / name, 100)
        self.run("--json", "scrub", self.root, expect=1)
        self.run("ack", "1", expect=0)
        self.run("accept", self.root / "b/accepted.bin", "--reason", "as it should be", expect=0)
        put(self.root / "b/newer.bin", b"newer than the damage")
        self.run("compare", self.root, "--with", self.copy)
        if is_served:
            self._serve()
            half = ("--byte-limit", str(1 << 20))
            self.run("scrub", self.root / "larger.bin", *half)
            self.run("compare", self.root / "larger.bin", "--with", self.copy, "--read", *half)
        for path, offset in zip(self.planted, (100, BLOCK + 100), strict=True):
            rot(path, offset)
        put(self.root / "a/keep2.bin", b"edited")
        (self.root / "a/keep3.bin").unlink()
        (self.root / "a/keep4.bin").rename(self.root / "b/moved.bin")
        put(self.root / "new.bin", b"new")
        self.settle()

    def _serve(self) -> None:
        self.box.configure(_SERVICE.format(root=self.root))

        def has_failed() -> bool:
            with closing(Connection(bytes(self.box.catalog), "mode=ro")) as db:
                return bool(db.value(_HAS_FAILED))

        run_forked([("daemon",)], self.box.environment, is_done=has_failed)

    def _write_files(self, source: random.Random) -> None:
        for name in (
            "a/planted.bin",
            "b/accepted.bin",
            "b/acked.bin",
            "b/newer.bin",
            *map("a/keep{}.bin".format, range(6)),
        ):
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            put(path, source.randbytes(6000))
        put(self.root / "large.bin", source.randbytes(3 * BLOCK + 500))
        self.imported.mkdir()
        lines = []
        for number in range(5):
            data = source.randbytes(5000)
            put(self.imported / f"{number}.bin", data)
            wrong = b"" if number else b"damaged since"
            lines.append(f"{hashlib.md5(data + wrong).hexdigest()}  {number}.bin\n")
        put(self.imported / "MD5SUMS", "".join(lines).encode())
        self.settle()

    def settle(self) -> None:
        """Wait until no file's times are racy, and what the catalog notes later differs from what it noted before."""
        age(*(path for path in self.fs.folder.rglob("*") if path.is_file()))
        sleep_into_next_second()

    def save(self, name: str) -> None:
        """Keep the state of everything under a name."""
        sleep_into_next_second()
        self.start = int(time.time())
        self.fs.umount()
        sh("cp", "--sparse=always", self.fs.image, self._folder / f"{name}.img")
        self.fs.mount()
        shutil.rmtree(self._folder / f"{name}.home", ignore_errors=True)
        shutil.copytree(self.box.home, self._folder / f"{name}.home")

    def restore(self, name: str, *, tree: bool = True) -> None:
        """Put a state back; without the tree if that can't have changed."""
        if tree:
            self.fs.umount()
            sh("cp", "--sparse=always", self._folder / f"{name}.img", self.fs.image)
            self.fs.mount()
        shutil.rmtree(self.box.home)
        shutil.copytree(self._folder / f"{name}.home", self.box.home)

    def list_tree(self) -> dict[str, object]:
        """Return all that is in the file system: witness and content of files."""
        found: dict[str, object] = {}
        for folder, _, names in os.walk(self.fs.folder):
            for name in names:
                path = os.path.join(folder, name)
                seen = os.stat(path)
                with open(path, "rb") as file:
                    found[tame_text(path)] = (seen.st_size, seen.st_mtime_ns, hashlib.md5(file.read()).hexdigest())
        return found
