"""
A disk loses power while the machine stays up: new content under old times is never called proven rot.

The power cut is real: a file is overwritten in place past the cache, the image is kept as it is then, with the inode's
new times still in memory only, and put back after the unmount. The next mount replays the journal of that moment.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from integrity.catalog import runs
from integrity.catalog.connection import Catalog
from support.bitrot import rot
from support.cli import Box, Completed, complete, make_command
from support.loopfs import LoopFS
from support.mountinfo import get_mount
from support.mounts import bound
from support.namespaces import with_binds
from support.planted import age
from support.programs import sh
from support.results import kinds, tallies

pytestmark = pytest.mark.root

BLOCK = 4096
SIZE = 3 * BLOCK
_TRIES = 5  # whoever syncs all disks at this moment, writes the times


def plant_blocks(folder: Path, *names: str) -> Path:
    """Make files whose content is written in place when they change, written long ago."""
    folder.mkdir()
    if get_mount(folder).fs_type == "btrfs":
        sh("chattr", "+C", folder)
    for name in names:
        (folder / name).write_bytes(os.urandom(SIZE))
    os.sync()
    age(*(folder / name for name in names))
    os.sync()
    return folder


def write_in_place(path: Path) -> None:
    """Overwrite a block on the disk; its new times stay in memory for some seconds."""
    with mmap.mmap(-1, BLOCK) as block:
        block.write(os.urandom(BLOCK))
        fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
        try:
            os.pwrite(fd, block, BLOCK)
        finally:
            os.close(fd)


def cut_power(fs: LoopFS, path: Path) -> None:
    """Overwrite a block of a file, lose the disk's power at once, and mount it again."""
    old = os.stat(path)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(fs.image)) as kept:
        before, cut = os.path.join(kept, b"before"), os.path.join(kept, b"cut")
        sh("cp", "--sparse=always", fs.image, before)
        for _ in range(_TRIES):
            write_in_place(path)
            sh("cp", "--sparse=always", fs.image, cut)
            put_back(fs, cut)
            new = os.stat(path)
            if (old.st_mtime_ns, old.st_ctime_ns) == (new.st_mtime_ns, new.st_ctime_ns):
                return
            put_back(fs, before)
    raise AssertionError(f"the times had reached the disk {_TRIES} times")


def put_back(fs: LoopFS, kept: bytes) -> None:
    """Mount a disk as it was when its image was kept."""
    fs.umount()
    sh("cp", "--sparse=always", kept, fs.image)
    fs.mount()


def get_certainties(done: Completed) -> dict[str, object]:
    """Return how sure each finding is, by the name of its file."""
    return {os.path.basename(str(one["path"])): one["certainty"] for one in done.findings}


@pytest.fixture(params=["ext4", "xfs", "btrfs"])
def disk(request: pytest.FixtureRequest) -> Iterator[LoopFS]:
    """Mount a disk of each kind."""
    with LoopFS(request.param) as fs:
        yield fs


def test_write_whose_times_were_lost_with_the_power(disk: LoopFS, integrity: Box) -> None:
    """It is after_crash and says that the disk was mounted again; what is verified since is proven again."""
    root = plant_blocks(disk.folder / "data", "written", "good", "rotten")
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    cut_power(disk, root / "written")

    crashed = integrity.run("--json", "scrub", root, expect=1)

    assert {"written": "after_crash"} == get_certainties(crashed)
    assert "mounted again" in str(crashed.findings[0]["message"])
    assert {"verified": 2, "damaged": 1} == tallies(crashed, without="skipped")
    rot(root / "rotten", 100)
    later = integrity.run("--json", "scrub", root, expect=1)
    assert "proven" == get_certainties(later)["rotten"]


def test_rot_without_a_remount_is_proven(disk: LoopFS, integrity: Box) -> None:
    """Runs one after the other in one mount, also from other mount namespaces, leave no doubt."""
    root = plant_blocks(disk.folder / "data", "good", "rotten")
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    rot(root / "rotten", 100)

    done = run_in_boot(integrity, None, "--json", "scrub", root)

    assert {"rotten": "proven"} == get_certainties(done)


def test_crash_of_a_disk_inside_a_root(integrity: Box) -> None:
    """Only what lies on the disk that was mounted again is less sure."""
    with LoopFS("ext4") as outer, LoopFS("ext4") as inner:
        root = plant_blocks(outer.folder / "data", "outside")
        (root / "usb").mkdir()
        plant_blocks(inner.folder / "data", "inside", "written")
        integrity.configure(f'[[root]]\npath = "{root}"\ncross_mounts = true\n')
        with bound(inner.mnt, root / "usb"):
            integrity.run("scan", root, expect=0)
            integrity.run("scrub", root, expect=0)
        cut_power(inner, inner.folder / "data" / "written")
        rot(root / "outside", 100)
        with bound(inner.mnt, root / "usb"):
            done = integrity.run("--json", "scrub", root, expect=1)
            rot(root / "usb/data/inside", 100)
            later = integrity.run("--json", "scrub", root, expect=1)

    assert {"outside": "proven", "written": "after_crash"} == get_certainties(done)
    assert "proven" == get_certainties(later)["inside"]


@pytest.mark.parametrize(("mounts", "certainty"), [(1, "proven"), (2, "after_crash")])
def test_boot_in_which_no_program_of_ours_ran(
    ext4: LoopFS, integrity: Box, tmp_path: Path, mounts: int, certainty: str
) -> None:
    """The first boot ended in order. Mounted once since, nothing happened; twice, somebody else could have crashed."""
    root = plant_blocks(ext4.folder / "data", "good", "rotten")
    (tmp_path / "first").write_text("5a1b0000-0000-4000-8000-000000000001\n")
    (tmp_path / "third").write_text("5a1b0000-0000-4000-8000-000000000003\n")
    assert 0 == run_in_boot(integrity, tmp_path / "first", "--json", "scan", root).code
    assert 0 == run_in_boot(integrity, tmp_path / "first", "--json", "scrub", root).code
    with Catalog.open(str(integrity.catalog), writes=True) as catalog, catalog.transaction() as c:
        boot = (tmp_path / "first").read_text().strip()
        runs.mark_clean_stop(c, boot, 1, runs.find_last_mounts(c, boot))
    for _ in range(mounts):
        ext4.remount()
    rot(root / "rotten", 100)

    done = run_in_boot(integrity, tmp_path / "third", "--json", "scrub", root)

    assert (1, ["rot"]) == (done.code, kinds(done))
    assert {"rotten": certainty} == get_certainties(done)


def run_in_boot(box: Box, boot: Path | None, *args: str | Path) -> Completed:
    """Run the program in a mount namespace of its own, in which the machine's boot is another one if one is given."""
    binds = {} if boot is None else {"/proc/sys/kernel/random/boot_id": boot}
    command = with_binds(binds, *make_command(*args))
    done = subprocess.run(command, env=box.environment, capture_output=True, check=False)
    return complete(done.returncode, done.stdout, done.stderr, is_json="--json" in args)
