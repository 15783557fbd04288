"""Repairs by root in a folder that is somebody else's: its owner gets nothing to read, and nothing to run, by them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.cli import Box
from support.loopfs import LoopFS
from support.planted import age
from support.privileges import NOBODY, as_nobody, let_in
from support.programs import sh
from support.repairs import CONFIG, blocks, leftovers
from support.shapes import put

pytestmark = pytest.mark.root

DATA = blocks(1)
_CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")
"""``cap_net_raw=ep``, as of ping."""


@pytest.fixture
def his(ext4: LoopFS, integrity: Box) -> Path:
    """Make a root that is nobody's in particular, with a file of root's that only root may read, and back it up."""
    root = ext4.folder / "root"
    let_in(ext4.folder)
    root.mkdir()
    os.chown(root, NOBODY, NOBODY)
    put(root / "private", DATA)
    (root / "private").chmod(0o600)
    with as_nobody():
        put(root / "his", blocks(1, seed=2))
        put(root / "other", blocks(1, seed=3))
    sh("cp", "-a", root, ext4.folder / "copy")
    age(root / "private", root / "his", root / "other")
    integrity.configure(f'{CONFIG}[[root]]\npath = "{root}"\npolicy = "archive"\n')
    integrity.run("scan", root, expect=0)
    return root


def repair(box: Box, path: Path, expect: int) -> str:
    """Repair one file from the copy of its root."""
    copy = path.parent.with_name("copy")
    return box.run("repair", path, "--from", copy, "--apply", "--discard", expect=expect).stdout


def test_private_file_that_is_gone_stays_its_owners(integrity: Box, his: Path) -> None:
    """Whoever may write to its folder may remove it, and is not to be given it for that."""
    with as_nobody():
        (his / "private").unlink()
        (his / "his").unlink()
    integrity.run("scan", his, expect=1)

    planned = integrity.run("repair", his, "--from", his.with_name("copy"), expect=0)
    assert "owner and group of its copy" in planned.stdout
    repair(integrity, his / "private", 0)
    repair(integrity, his / "his", 0)

    seen = (his / "private").stat()
    assert (DATA, 0, 0, 0o100600) == ((his / "private").read_bytes(), seen.st_uid, seen.st_gid, seen.st_mode)
    assert (NOBODY, NOBODY) == ((his / "his").stat().st_uid, (his / "his").stat().st_gid)


def rename_over(his: Path) -> None:
    os.rename(his / "other", his / "private")


def make_anew(his: Path) -> None:
    """Take the inode number of the file as well, as far as the file system gives it again."""
    (his / "private").unlink()
    put(his / "private", b"x" * len(DATA))


def open_to_all(his: Path) -> None:
    """Have another file of root's stand there, which all may read."""
    os.rename(his / "shown", his / "private")


@pytest.mark.parametrize("replace", [rename_over, make_anew, open_to_all])
def test_private_file_is_not_given_to_who_replaced_it(
    integrity: Box, his: Path, replace: Callable[[Path], None]
) -> None:
    """The repair is refused, as what stands there may be read by others than the recorded bytes."""
    put(his / "shown", blocks(1, seed=4))
    with as_nobody():
        replace(his)
    before = (his / "private").stat()
    integrity.run("scan", his, expect=1)
    integrity.run("scrub", his, expect=1)

    said = repair(integrity, his / "private", 1)

    assert "another file than the recorded one stands there" in said
    assert before == (his / "private").stat()
    assert not leftovers(his)
    (his / "private").unlink()  # what it says to do
    repair(integrity, his / "private", 0)
    assert (DATA, 0) == ((his / "private").read_bytes(), (his / "private").stat().st_uid)


@pytest.mark.parametrize("right", ["set-id", "capability"])
def test_rights_of_another_program_are_not_given_to_recorded_bytes(integrity: Box, his: Path, right: str) -> None:
    """Else he has root run what he wrote himself, once root repairs the file."""
    put(his / "tool", b"t" * len(DATA))
    if right == "set-id":
        (his / "tool").chmod(0o4755)
    else:
        os.setxattr(his / "tool", "security.capability", _CAPABILITY)
    with as_nobody():
        os.rename(his / "tool", his / "his")
    integrity.run("scan", his, expect=1)
    integrity.run("scrub", his, expect=1)

    assert "another file than the recorded one stands there" in repair(integrity, his / "his", 1)
    assert b"t" * len(DATA) == (his / "his").read_bytes()


def test_rights_of_the_recorded_file_stay(integrity: Box, his: Path) -> None:
    """Bits that its owner gave to the file itself are not in question, nor is who may read it."""
    with as_nobody():
        before = (his / "his").stat()
        with open(his / "his", "r+b") as file:
            file.write(b"changed")
        os.utime(his / "his", ns=(before.st_atime_ns, before.st_mtime_ns))
        (his / "his").chmod(0o4755)
    (his.with_name("copy") / "his").chmod(0o600)
    os.chown(his.with_name("copy") / "his", 0, 0)
    integrity.run("scrub", his, expect=1)

    repair(integrity, his / "his", 0)

    seen = (his / "his").stat()
    assert (NOBODY, 0o104755, before.st_ino != seen.st_ino) == (seen.st_uid, seen.st_mode, True)


def test_file_that_its_owner_saved_anew(integrity: Box, his: Path) -> None:
    """Programs save files by making others: who may read the copy may have it back."""
    with as_nobody():
        put(his / "saved", b"s" * 100)
        os.rename(his / "saved", his / "his")
    integrity.run("scan", his, expect=1)

    repair(integrity, his / "his", 0)

    assert (blocks(1, seed=2), NOBODY) == ((his / "his").read_bytes(), (his / "his").stat().st_uid)
