"""Which copy it is: disks that take turns, snapshots behind a link, disks that number files anew, other names."""

from __future__ import annotations

import os
import shutil
import subprocess
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.bitrot import allow_damage, rot
from support.cli import Box
from support.comparing import back_up, compare, counts, said, steps
from support.loopfs import LoopFS, make_image
from support.planted import age
from support.results import get_number
from support.shapes import put

NAMES = [f"{number}.jpg" for number in range(10)]
NAME = NAMES[3]


@pytest.fixture
def root(tmp_path: Path, integrity: Box) -> Path:
    """Record files that were written days ago."""
    root = tmp_path / "data"
    root.mkdir()
    for name in NAMES:
        put(root / name, os.urandom(20_000))
    age(*(root / name for name in NAMES))
    integrity.run("scrub", root, expect=0)
    return root


@pytest.fixture
def usb(tmp_path: Path) -> Iterator[Path]:
    """Make a mount point."""
    folder = tmp_path / "usb"
    folder.mkdir()
    yield folder
    while subprocess.run(["umount", "-l", folder], check=False, capture_output=True).returncode == 0:
        pass


def mount(image: Path, usb: Path) -> None:
    """Attach a disk."""
    subprocess.run(["mount", "-o", "loop", image, usb], check=True)


def make_disk(tmp_path: Path, name: str, root: Path) -> Path:
    """Make a backup disk with all files."""
    image, place = tmp_path / f"{name}.img", tmp_path / name
    make_image(image, "ext4")
    allow_damage(os.fsencode(image))
    place.mkdir()
    mount(image, place)
    back_up(root, place / "p")
    subprocess.run(["umount", place], check=True)
    return image


@pytest.mark.root
def test_two_disks_that_take_turns(root: Path, usb: Path, tmp_path: Path, integrity: Box) -> None:
    """Damage on one disk stays known, with the disk, while the other one is compared; each keeps its results."""
    first, second = (make_disk(tmp_path, name, root) for name in ("first", "second"))
    integrity.configure(f'[[root]]\npath = "{root}"\n[[copy]]\nname = "usb"\nof = "{root}"\nurl = "{usb}/p"\n')
    mount(first, usb)
    compare(integrity, "--with", "usb", expect=0)
    subprocess.run(["umount", usb], check=True)
    mount(second, usb)
    compare(integrity, "--with", "usb", expect=0)
    rot(usb / "p" / NAME, 100)
    done = compare(integrity, "--with", "usb", expect=1)
    (finding,) = done.findings
    name = str(finding["copy"])
    assert name.startswith("usb (disk ")
    assert "copy_differs" == finding["kind"]
    integrity.run("compare", "--blocks", root / NAME, "--with", name, expect=1)
    subprocess.run(["umount", usb], check=True)
    mount(first, usb)
    other = integrity.run("compare", "--blocks", root / NAME, "--with", name, expect=3)
    assert f"another disk than that of {name} is there" in other.stderr
    refused = integrity.run("accept", root / NAME, "--with", name, "--reason", "mine", expect=3)
    assert f"another disk than that of {name} is there" in refused.stdout + refused.stderr
    again = compare(integrity, "--with", "usb", "--read-percent", "10", expect=0)
    assert {"verified": 1, "not_due": 9} == counts(again)
    assert [name] == [one["copy"] for one in integrity.findings("findings", expect=1)]
    assert name in integrity.run("status", expect=1).stdout + integrity.run("findings", expect=1).stdout
    subprocess.run(["umount", usb], check=True)
    mount(second, usb)
    shutil.copy2(root / NAME, usb / "p" / NAME)
    compare(integrity, root, "--with", name, expect=0)
    integrity.run("findings", expect=0)
    integrity.run("forget", root, "--copy", name, "--yes", expect=0)


@pytest.mark.root
def test_same_disk_at_another_place(root: Path, usb: Path, tmp_path: Path, integrity: Box) -> None:
    """A disk is known wherever it is mounted: what was read there needs no second reading."""
    disk = make_disk(tmp_path, "first", root)
    config = '[[root]]\npath = "{0}"\n[[copy]]\nname = "usb"\nof = "{0}"\nurl = "{1}"\n'
    integrity.configure(config.format(root, usb / "p"))
    mount(disk, usb)
    compare(integrity, "--with", "usb", "--read-percent", "50", expect=0)
    subprocess.run(["umount", usb], check=True)
    mount(disk, tmp_path / "first")
    integrity.configure(config.format(root, tmp_path / "first" / "p"))
    try:
        compare(integrity, "--with", "usb", "--read-percent", "50", expect=0)
    finally:
        subprocess.run(["umount", tmp_path / "first"], check=True)
    assert "10 match by reading the data back" in integrity.run("status", expect=None).stdout


def test_link_to_the_snapshot_of_each_night(root: Path, tmp_path: Path, integrity: Box) -> None:
    """``latest`` is one copy: hard-linked files are not read again, and a percentage gets through all of them."""
    snapshots = tmp_path / "snapshots"
    snapshots.mkdir()
    back_up(root, snapshots / "0")
    latest = snapshots / "latest"
    read = 0
    for night in range(1, 6):
        subprocess.run(["cp", "-al", snapshots / str(night - 1), snapshots / str(night)], check=True)
        latest.unlink(missing_ok=True)
        latest.symlink_to(str(night))
        done = compare(integrity, root, "--with", latest, "--read-percent", "20", expect=0)
        read += get_number(done.summary, "files_read")
        assert latest == Path(str(done.summary["copy"]))
    assert 10 == read
    assert "10 match by reading the data back" in integrity.run("status", expect=None).stdout


def test_file_that_was_copied_anew_is_read_again(root: Path, tmp_path: Path, integrity: Box) -> None:
    """Another inode under the same time is another file: what was read of the former one says nothing about it."""
    copy = back_up(root, tmp_path / "copy")
    compare(integrity, root, "--with", copy, expect=0)
    shutil.copy2(copy / NAME, tmp_path / "new")
    os.rename(tmp_path / "new", copy / NAME)
    size = (root / NAME).stat().st_size
    done = integrity.run("--json", "compare", root, "--with", copy, "--read-percent", "1", expect=0)
    assert get_number(done.summary, "bytes_read") == size
    told = integrity.run("--json", "explain", root / NAME, expect=0).of_type("file")[0]["copies"]
    assert isinstance(told, list)
    assert told[0]["read_at"] is not None


@pytest.mark.root
def test_file_that_was_renamed_since_the_backup_is_repaired(integrity: Box, tmp_path: Path) -> None:
    """The copy has it under its old name: the comparison found that, and repair asks for it there."""
    with LoopFS("ext4") as disk:
        root = disk.folder / "data"
        root.mkdir()
        for name in ("old.jpg", "stays.jpg"):
            put(root / name, os.urandom(20_000))
        age(root / "old.jpg", root / "stays.jpg")
        good = (root / "old.jpg").read_bytes()
        integrity.run("scrub", root, expect=0)
        copy = back_up(root, tmp_path / "copy")
        (root / "old.jpg").rename(root / "new.jpg")
        integrity.run("scrub", root, expect=0)
        rot(root / "new.jpg", 100)
        integrity.run("scrub", root, expect=1)
        done = compare(integrity, root, "--with", copy, expect=1)
        assert {"rot": {"new.jpg"}} == said(done, root)
        assert [f"integrity repair {root / 'new.jpg'} --from {copy}"] == steps(done, "rot")
        integrity.run("repair", root / "new.jpg", "--from", copy, "--apply", expect=0)
        assert good == (root / "new.jpg").read_bytes()
        integrity.run("findings", expect=0)


def test_names_in_another_unicode_form(integrity: Box, tmp_path: Path) -> None:
    """A copy that macOS made has decomposed accents: all is compared by name, damage is seen, and repair finds it."""
    root, copy = tmp_path / "data", tmp_path / "copy"
    (root / "\u00e9t\u00e9").mkdir(parents=True)
    names = ["\u00e9t\u00e9/\u00fc.jpg", "\u00e9t\u00e9/plain.jpg", "\u00f6.jpg"]
    for name in names:
        put(root / name, os.urandom(9000))
    age(*(root / name for name in names))
    for name in names:
        target = copy / unicodedata.normalize("NFD", name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target)
    integrity.run("scrub", root, expect=0)
    assert {"verified": 3} == counts(compare(integrity, root, "--with", copy, expect=0))
    bad = copy / unicodedata.normalize("NFD", names[0])
    times, data = bad.stat(), bytearray(bad.read_bytes())
    data[10] ^= 1
    bad.write_bytes(bytes(data))
    os.utime(bad, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert {"copy_conflict": {names[0]}} == said(compare(integrity, root, "--with", copy, expect=1), root)
    mine, times = (root / names[2]).read_bytes(), (root / names[2]).stat()
    (root / names[2]).write_bytes(bytes([mine[0] ^ 1]) + mine[1:])
    os.utime(root / names[2], ns=(times.st_atime_ns, times.st_mtime_ns))
    integrity.run("scrub", root, expect=1)
    integrity.run("repair", root / names[2], "--from", copy, "--apply", expect=0)
    assert mine == (root / names[2]).read_bytes()


def test_other_letter_case_is_another_file_where_both_sides_tell(root: Path, tmp_path: Path, integrity: Box) -> None:
    """Only where one side ignores case is a name in capitals the same."""
    copy = back_up(root, tmp_path / "copy")
    (copy / NAME).rename(copy / NAME.upper())
    done = compare(integrity, root, "--with", copy, expect=0)
    assert {"verified": 10, "renamed": 1} == counts(done)
