"""Repairs of real damage on real file systems: what is put back, what is kept, and what is never touched."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integrity.files.span import Pace
from integrity.jobs.repair.plan import PlanOutcome
from integrity.jobs.repair.run import RepairOptions
from integrity.jobs.report import Stop
from support.bitrot import find_extents, flip_bit
from support.cli import Box, make_command
from support.faultfs import FaultFS, Rule
from support.flakydisk import FlakyDisk
from support.loopfs import LoopFS
from support.mounts import filled, turn_read_only
from support.planted import age
from support.programs import sh
from support.repairs import BLOCK, CONFIG, blocks, context_of, leftovers, run_repair
from support.shapes import damage, put, put_sparse
from support.stored import query
from support.waiting import wait_until

pytestmark = pytest.mark.root

_EXTENT_SHARED = 0x2000


def prepare(box: Box, root: Path, copy: Path, contents: dict[str, bytes]) -> None:
    """Record files whose copies are good."""
    box.configure(CONFIG)
    for folder in (root, copy):
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            put(folder / name, content)
    os.sync()
    age(*(root / name for name in contents))
    box.run("scan", root, expect=0)


def change(path: Path, *offsets: int) -> None:
    """Damage a copy, whose times are nobody's business."""
    with open(path, "r+b") as file:
        for offset in offsets:
            os.pwrite(file.fileno(), b"damaged", offset)


def test_two_damaged_copies_make_one_good_file(each_fs: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """Three blocks are bad here, two others in the one copy and three in the other: together they have all."""
    data, root = blocks(9), each_fs.folder / "root"
    prepare(integrity, root, tmp_path / "one", {"a": data})
    prepare(integrity, root, tmp_path / "two", {"a": data})
    bad = 0 if each_fs.fs_type == "btrfs" else 1
    for offset in (5, 3 * BLOCK, 9 * BLOCK + 7):
        if bad:
            flip_bit(root / "a", offset)
        else:
            flip_bit(root / "a", offset, mirrors=1)
    change(tmp_path / "one/a", 3 * BLOCK + 5, BLOCK)
    change(tmp_path / "two/a", 5 * BLOCK, 9, 9 * BLOCK + 2)
    assert integrity.run("scrub", root).code in (1, 3)

    done = integrity.run(
        *("--json", "repair", root / "a", "--from", tmp_path / "one", "--from", tmp_path / "two", "--apply"), expect=0
    )

    plan, result = done.of_type("repair_plan")[0], done.of_type("repair")[0]
    assert [0, 3, 9] == plan["damaged_blocks"]
    assert [
        {"copy": str(tmp_path / "one"), "blocks": [0, 9]},
        {"copy": str(tmp_path / "two"), "blocks": [3]},
    ] == plan["mends"]
    assert data == (root / "a").read_bytes()
    assert result["is_repaired"] is True
    assert [str(path) for path in leftovers(root)] == [result["kept"]]
    assert data != (tmp_path / "one/a").read_bytes()
    integrity.run("scrub", root, expect=0)
    integrity.run("findings", expect=0)


@pytest.mark.parametrize("fs_type", ["xfs", "btrfs"])
def test_good_blocks_are_shared_where_the_file_system_can(fs_type: str, integrity: Box, tmp_path: Path) -> None:
    """A reflink of the damaged file gets the good blocks written over it: the rest is on the disk once."""
    with LoopFS(fs_type) as fs:
        data, root = blocks(16, tail=0), fs.folder / "root"
        prepare(integrity, root, tmp_path / "copy", {"a": data})
        damage(root / "a", BLOCK)
        integrity.run("scrub", root, expect=1)

        integrity.run("repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=0)

        shared = sum(one.length for one in find_extents(root / "a") if one.flags & _EXTENT_SHARED)
        assert data == (root / "a").read_bytes()
        assert shared == 15 * BLOCK


def test_unreadable_sectors(flaky_ext4: FlakyDisk, integrity: Box, tmp_path: Path) -> None:
    """What the disk can't give any more comes from the copy; the good file stands on other sectors."""
    data, root = blocks(6), flaky_ext4.folder / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": data, "small": data[:9000]})
    flaky_ext4.bad_sector(root / "a", 2 * BLOCK + 8192)
    flaky_ext4.bad_sector(root / "a", 6 * BLOCK)
    flaky_ext4.bad_sector(root / "small", 4096)
    integrity.run("scrub", root, expect=3)

    done = integrity.run("--json", "repair", root, "--from", tmp_path / "copy", "--apply", expect=0)

    plans = {os.path.basename(str(plan["path"])): plan for plan in done.of_type("repair_plan")}
    assert [2, 6] == plans["a"]["damaged_blocks"]
    assert [[2 * BLOCK + 8192, 4096], [6 * BLOCK, 100]] == plans["a"]["unreadable_ranges"]
    assert [0] == plans["small"]["damaged_blocks"]
    assert data == (root / "a").read_bytes()
    assert data[:9000] == (root / "small").read_bytes()
    integrity.run("scrub", root, expect=0)


def test_file_that_can_not_even_be_opened(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """A disk that refuses to open a file lets it be replaced; FUSE has no exchange that could be relied on."""
    data, root = blocks(3), faulty.folder
    prepare(integrity, root, tmp_path / "copy", {"a": data, "b": b"other"})
    rule = faulty.add(Rule("open", path="/a", errno=errno.EIO))
    integrity.run("scrub", root, expect=3)

    done = integrity.run("repair", root / "a", "--from", tmp_path / "copy", "--apply")

    faulty.clear(rule)
    assert data == (root / "a").read_bytes(), done
    assert len(leftovers(root)) <= 1


def test_owner_mode_acl_attributes_and_times_stay(each_fs: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """All that is not the bytes is as it was, to the nanosecond; what the folder gives to new files is not added."""
    data, root = blocks(2), each_fs.folder / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": data, "plain": data})
    acl = bytes.fromhex("02000000 01000600ffffffff 02000600d2040000 04000400ffffffff 10000600ffffffff 20000000ffffffff")
    for name in ("a", "plain"):
        os.chown(root / name, 1234, 5678)
        os.chmod(root / name, 0o4660)
    os.setxattr(root / "a", "user.comment", b"\x00bytes\xff")
    os.setxattr(root / "a", "system.posix_acl_access", acl)
    os.setxattr(root / "a", "trusted.note", b"kept")
    os.setxattr(root, "system.posix_acl_default", acl)
    for name in ("a", "plain"):
        os.utime(root / name, ns=(1_600_000_000_123_456_789, 1_500_000_000_987_654_321))
    integrity.run("accept", root / "a", root / "plain", "--reason", "test", expect=0)
    before = {name: describe(root / name) for name in ("a", "plain")}
    for name in ("a", "plain"):
        damage(root / name, 9)
        os.utime(root / name, ns=(1_600_000_000_123_456_789, 1_500_000_000_987_654_321))
        os.chmod(root / name, 0o4660)
    integrity.run("scrub", root, expect=1)

    integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", expect=0)

    assert before == {name: describe(root / name) for name in ("a", "plain")}
    assert data == (root / "a").read_bytes()
    assert "system.posix_acl_access" not in os.listxattr(root / "plain")


def describe(path: Path) -> tuple[object, ...]:
    """Return all that a file is besides its bytes."""
    stat = os.stat(path)
    xattrs = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return stat.st_uid, stat.st_gid, stat.st_mode, stat.st_mtime_ns, stat.st_atime_ns, xattrs


def test_all_names_of_a_file_are_exchanged(ext4: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """Three names in three folders lead to one file afterwards, too; the damaged one is kept once."""
    data, root = blocks(2), ext4.folder / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": data})
    for folder in ("b", "c/d"):
        (root / folder).mkdir(parents=True)
        os.link(root / "a", root / folder / "name")
    integrity.run("scan", root, expect=0)
    flip_bit(root / "a", 9)
    integrity.run("scrub", root, expect=1)

    done = integrity.run("--json", "repair", root, "--from", tmp_path / "copy", "--apply", expect=0)

    names = [root / "a", root / "b/name", root / "c/d/name"]
    assert 1 == len(done.of_type("repair"))
    assert {data} == {name.read_bytes() for name in names}
    assert 1 == len({name.stat().st_ino for name in names})
    assert 3 == names[0].stat().st_nlink
    assert 1 == len(leftovers(root))
    integrity.run("scrub", root, expect=0)
    integrity.run("findings", expect=0)


def test_file_with_an_unknown_name_is_refused(ext4: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """A name outside of the root would go on leading to the damaged bytes: nothing is done, and that is said."""
    root = ext4.folder / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": blocks(2)})
    os.link(root / "a", ext4.folder / "outside")
    integrity.run("scrub", root, expect=0)
    flip_bit(root / "a", 9)
    integrity.run("scrub", root, expect=1)
    before = (root / "a").read_bytes()

    done = integrity.run("--json", "repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=1)

    plan = done.of_type("repair_plan")[0]
    assert "refused" == plan["standing"]
    assert "2 names" in str(plan["reason"])
    assert f"find {ext4.folder} -xdev -inum {(root / 'a').stat().st_ino};" in str(plan["reason"])
    assert before == (root / "a").read_bytes()
    assert not leftovers(root)


def test_file_system_without_exchange(integrity: Box, tmp_path: Path) -> None:
    """Where renameat2 is not known, the two are renamed one after the other."""
    data, root = blocks(2), tmp_path / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": data})
    damage(root / "a", 9)
    bad = (root / "a").read_bytes()
    integrity.run("scrub", root, expect=1)
    for number in (errno.EINVAL, errno.ENOSYS):
        command = make_command("repair", root / "a", "--from", tmp_path / "copy", "--apply")
        strace = ["strace", "-f", "-qq", "-o", tmp_path / "log", "-e", "trace=renameat2,renameat,rename"]
        inject = ["-e", f"inject=renameat2:error={errno.errorcode[number]}"]
        done = subprocess.run([*strace, *inject, *command], env=integrity.environment, capture_output=True, check=False)
        assert 0 == done.returncode, done
        assert data == (root / "a").read_bytes()
        assert [bad] == [path.read_bytes() for path in leftovers(root)]
        leftovers(root)[0].unlink()
        damage(root / "a", 9)
        integrity.run("scrub", root, expect=1)


def test_fuse_file_system_is_never_asked_to_exchange(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """A server that ignores the flags of a rename would lose the damaged file."""
    data, root = blocks(2), faulty.folder
    prepare(integrity, root, tmp_path / "copy", {"a": data, "b": b"other"})
    damage(root / "a", 9)
    bad = (root / "a").read_bytes()
    assert 1 == integrity.run("scrub", root).code

    integrity.run("repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=0)

    assert data == (root / "a").read_bytes()
    assert [bad] == [path.read_bytes() for path in leftovers(root)]
    integrity.run("scrub", root, expect=0)


@pytest.mark.parametrize("what", ["content", "chmod", "replaced"])
def test_file_that_was_touched_since_it_was_judged_is_left_alone(
    ext4: LoopFS, integrity: Box, tmp_path: Path, what: str
) -> None:
    """What somebody wrote after the verdict is not replaced; that it moved is said, and what to do."""
    root = ext4.folder / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": blocks(2)})
    flip_bit(root / "a", 9)
    integrity.run("scrub", root, expect=1)
    integrity.run("repair", root / "a", "--from", tmp_path / "copy", expect=0)
    if what == "content":
        change(root / "a", 5)
    elif what == "chmod":
        (root / "a").chmod(0o600)
    else:
        put(root / "new", blocks(2, seed=7))
        (root / "new").rename(root / "a")
    before = (root / "a").read_bytes()

    done = integrity.run("--json", "repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=1)

    plan = done.of_type("repair_plan")[0]
    assert "refused" == plan["standing"]
    assert "changed since the finding" in str(plan["reason"])
    assert "integrity scrub" in str(plan["reason"])
    assert before == (root / "a").read_bytes()
    assert not leftovers(root)


@pytest.mark.parametrize("is_late", [False, True])
def test_file_that_is_written_while_the_new_one_is_made(integrity: Box, tmp_path: Path, is_late: bool) -> None:
    """At the latest the last look before the exchange sees it: the new file is taken away, the written one stays."""
    root = tmp_path / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": blocks(2)})
    damage(root / "a", 9)
    integrity.run("scrub", root, expect=1)
    command = make_command("--json", "repair", root / "a", "--from", tmp_path / "copy", "--apply")
    delay = ["-e", "trace=fsync", "-e", "inject=fsync:delay_enter=2s:when=1"]
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", *delay]
    with subprocess.Popen([*strace, *command], env=integrity.environment, stdout=subprocess.PIPE) as process:
        mtime_ns = (root / "a").stat().st_mtime_ns if is_late else None  # what it is given last
        wait_until(lambda: is_made(root, mtime_ns), "the new file", timeout_s=30)
        change(root / "a", 5)
        out, _ = process.communicate(timeout=60)

    assert 1 == process.returncode
    assert (b"changed since it was examined" if is_late else b"changed") in out
    assert b"damaged" in (root / "a").read_bytes()
    assert not leftovers(root)
    assert query(integrity, "SELECT count(*) FROM meta WHERE key LIKE 'repair/%'") == [(0,)]


def is_made(root: Path, mtime_ns: int | None) -> bool:
    """Say whether a new file has bytes, or already all but its name."""
    stats = [path.stat() for path in leftovers(root)]
    return any(stat.st_size if mtime_ns is None else stat.st_mtime_ns == mtime_ns for stat in stats)


@pytest.mark.parametrize("is_mtime_kept", [False, True])
def test_file_that_is_written_right_after_the_exchange(integrity: Box, tmp_path: Path, is_mtime_kept: bool) -> None:
    """What is recorded is what was verified, so the write is a change to the next scrub, and no rot."""
    root = tmp_path / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": blocks(2)})
    damage(root / "a", 9)
    integrity.run("scrub", root, expect=1)

    def write(_: float) -> bool:
        if is_mtime_kept:
            damage(root / "a", BLOCK)
        else:
            change(root / "a", BLOCK)
        return False

    with context_of(integrity) as context:
        context.wait = write
        (done,) = run_repair(context, [root / "a"], [tmp_path / "copy"]).done

    assert done.is_repaired
    assert "changed after it was verified" in done.message
    integrity.run("findings", expect=0)
    scrubbed = integrity.run("--json", "scrub", root, expect=1 if is_mtime_kept else 0)
    assert (["silent_rewrite"] if is_mtime_kept else []) == [one["kind"] for one in scrubbed.of_type("finding")]


def test_folder_that_is_moved_away_with_the_new_file(integrity: Box, tmp_path: Path) -> None:
    """The new file is taken away where its folder is by then, and what stands in the folder's place is not touched."""
    data, root = blocks(2), tmp_path / "root"
    prepare(integrity, root, tmp_path / "copy", {"sub/a": data, "b": b"another"})
    damage(root / "sub/a", 9)
    damaged = (root / "sub/a").read_bytes()
    integrity.run("scrub", root, expect=1)
    command = make_command("repair", root, "--from", tmp_path / "copy", "--apply")
    delay = ["-e", "trace=fsync", "-e", "inject=fsync:delay_enter=500ms"]
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", *delay]

    with subprocess.Popen([*strace, *command], env=integrity.environment, stdout=subprocess.PIPE) as process:
        wait_until(lambda: bool(leftovers(root)), "the new file", timeout_s=30)
        (root / "sub").rename(tmp_path / "away")
        (root / "sub").mkdir()
        out, _ = process.communicate(timeout=60)

    assert (1, True) == (process.returncode, b"NOT repaired" in out)
    assert [tmp_path / "away/a"] == list((tmp_path / "away").iterdir())
    assert [] == list((root / "sub").iterdir())
    (root / "sub").rmdir()
    (tmp_path / "away").rename(root / "sub")
    assert damaged == (root / "sub/a").read_bytes()
    integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", "--discard", expect=0)
    assert data == (root / "sub/a").read_bytes()


@pytest.mark.parametrize("is_gone", [False, True])
def test_new_file_that_is_written_while_it_gets_its_name(integrity: Box, tmp_path: Path, is_gone: bool) -> None:
    """Renaming moves the ctime as writing does, so a write in between is to be noticed by itself: it is no rot."""
    root = tmp_path / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": blocks(2), "b": b"another"})
    damage(root / "a", 9)
    integrity.run("scrub", root, expect=1)
    if is_gone:
        (root / "a").unlink()
    command = make_command("--json", "repair", root / "a", "--from", tmp_path / "copy", "--apply")
    delay = ["-e", "trace=fsync", "-e", "inject=fsync:delay_enter=500ms"]
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", *delay]

    def find_new() -> Path | None:
        made = [root / "a"] if is_gone else [path for path in leftovers(root) if path.suffix != ".new"]
        return next(filter(Path.exists, made), None)

    with subprocess.Popen([*strace, *command], env=integrity.environment, stdout=subprocess.PIPE) as process:
        wait_until(lambda: find_new() is not None, "the new file on its way", timeout_s=30)
        new = find_new()
        assert new is not None
        damage(new, BLOCK)
        out, _ = process.communicate(timeout=60)

    assert 0 == process.returncode
    assert b"changed after it was verified" in out
    scrubbed = integrity.run("--json", "scrub", root, expect=1)
    assert ["silent_rewrite"] == [one["kind"] for one in scrubbed.of_type("finding")]


@pytest.mark.parametrize("option", [(), ("--discard",)])
def test_what_is_saved_right_before_the_exchange_is_kept(
    integrity: Box, tmp_path: Path, option: tuple[str, ...]
) -> None:
    """It is in the damaged file, which is kept then though it was to be removed; that is said."""
    data, root = blocks(2), tmp_path / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": data})
    damage(root / "a", 9)
    integrity.run("scrub", root, expect=1)
    command = make_command("--json", "repair", root / "a", "--from", tmp_path / "copy", "--apply", *option)
    delay = ["-e", "trace=fsync", "-e", "inject=fsync:delay_enter=500ms"]
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", *delay]
    with subprocess.Popen([*strace, *command], env=integrity.environment, stdout=subprocess.PIPE) as process:
        wait_until(lambda: any(path.suffix != ".new" for path in leftovers(root)), "the whole new file", timeout_s=30)
        change(root / "a", 5)
        out, _ = process.communicate(timeout=60)

    assert 0 == process.returncode
    assert b"its modification time changed since the finding" in out
    assert data == (root / "a").read_bytes()
    (kept,) = leftovers(root)
    assert b"damaged" == kept.read_bytes()[5:12]


def test_file_that_a_program_has_open_for_writing(integrity: Box, tmp_path: Path) -> None:
    """It would go on writing into the file that is kept, and nobody would ever see what."""
    root = tmp_path / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": blocks(2)})
    damage(root / "a", 9)
    integrity.run("scrub", root, expect=1)
    with open(root / "a", "r+b"):
        done = integrity.run("repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=1)
    assert "open for writing" in done.stdout
    assert not leftovers(root)
    integrity.run("repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=0)


def test_disk_that_is_full(integrity: Box, tmp_path: Path) -> None:
    """Nothing is left of the attempt, the damaged file is as it was, and that the disk is full is said."""
    with LoopFS("ext4", size_bytes=48 << 20) as fs:
        data, root = blocks(64), fs.folder / "root"
        prepare(integrity, root, tmp_path / "copy", {"a": data})
        flip_bit(root / "a", 9)
        integrity.run("scrub", root, expect=1)
        before = (root / "a").read_bytes(), os.stat(root / "a")
        with filled(fs.folder, keep_bytes=1 << 20):
            done = integrity.run("repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=1)
        assert "disk is full" in done.stdout
        assert before == ((root / "a").read_bytes(), os.stat(root / "a"))
        assert not leftovers(root)
        integrity.run("repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=0)
        assert data == (root / "a").read_bytes()


def test_disk_that_is_read_only(ext4: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """The plan is shown all the same; doing it fails with the reason."""
    root = ext4.folder / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": blocks(2)})
    flip_bit(root / "a", 9)
    integrity.run("scrub", root, expect=1)
    turn_read_only(ext4.mnt)
    integrity.run("repair", root / "a", "--from", tmp_path / "copy", expect=0)
    done = integrity.run("repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=1)
    assert "read-only" in done.stdout
    assert query(integrity, "SELECT count(*) FROM meta WHERE key LIKE 'repair/%'") == [(0,)]


@contextmanager
def faulty_copy(tmp_path: Path, content: bytes) -> Iterator[FaultFS]:
    """Give a copy on a disk that fails to order."""
    (tmp_path / "source").mkdir()
    put(tmp_path / "source/a", content)
    with FaultFS(tmp_path / "source") as copy:
        yield copy


def test_copy_that_says_something_else_the_second_time(integrity: Box, tmp_path: Path) -> None:
    """What was good when it was planned is verified again when it is written; if nobody has it good any more, no."""
    data, root = blocks(2), tmp_path / "root"
    prepare(integrity, root, tmp_path / "good", {"a": data})
    damage(root / "a", 9)
    bad = (root / "a").read_bytes()
    integrity.run("scrub", root, expect=1)
    with faulty_copy(tmp_path, data) as copy, context_of(integrity) as context:
        copy.add(Rule("read", path="/a", flip=77, skip=1))
        alone = run_repair(context, [root / "a"], [copy.folder], RepairOptions(applies=True, hold_bytes=0))
        assert PlanOutcome.REPAIRABLE is alone.plans[0].outcome
        assert not alone.done[0].is_repaired
        assert "no longer is" in alone.done[0].message
        assert bad == (root / "a").read_bytes()
        assert not leftovers(root)
        copy.clear()
        copy.add(Rule("read", path="/a", flip=77, skip=1))
        both = [copy.folder, tmp_path / "good"]
        assert run_repair(context, [root / "a"], both, RepairOptions(applies=True, hold_bytes=0)).done[0].is_repaired
    assert data == (root / "a").read_bytes()


def test_copy_with_bad_sectors_lends_what_it_can(integrity: Box, tmp_path: Path) -> None:
    """A block that can't be read from the one copy is read from the other."""
    data, root = blocks(4), tmp_path / "root"
    prepare(integrity, root, tmp_path / "good", {"a": data})
    damage(root / "a", 9, 2 * BLOCK)
    change(tmp_path / "good/a", 2 * BLOCK)
    integrity.run("scrub", root, expect=1)
    with faulty_copy(tmp_path, data) as copy:
        copy.add(Rule("read", path="/a", errno=errno.EIO, offset=0, length=4096))
        done = integrity.run(
            *("--json", "repair", root / "a", "--from", copy.folder, "--from", tmp_path / "good", "--apply"), expect=0
        )
        mends = [
            {"copy": str(tmp_path / "good"), "blocks": [0]},
            {"copy": str(copy.folder), "blocks": [2]},
        ]
        assert mends == done.of_type("repair_plan")[0]["mends"]
    assert data == (root / "a").read_bytes()


def test_links_in_the_place_of_what_was_recorded(integrity: Box, tmp_path: Path) -> None:
    """Neither a link in the place of the file nor one in the place of its folder is followed."""
    data, root = blocks(2), tmp_path / "root"
    prepare(integrity, root, tmp_path / "copy", {"d/a": data, "e/a": data, "z": b"z"})
    damage(root / "d/a", 9)
    damage(root / "e/a", 9)
    integrity.run("scrub", root, expect=1)
    (root / "d").rename(tmp_path / "elsewhere")
    (root / "d").symlink_to(tmp_path / "elsewhere")
    (root / "e/a").rename(tmp_path / "victim")
    (root / "e/a").symlink_to(tmp_path / "victim")
    before = (tmp_path / "elsewhere/a").read_bytes(), (tmp_path / "victim").read_bytes()

    done = integrity.run("--json", "repair", root, "--from", tmp_path / "copy", "--apply", expect=1)
    integrity.run("repair", root / "e/a", "--from", tmp_path / "copy", "--apply", expect=1)

    assert ["refused", "refused"] == [plan["standing"] for plan in done.of_type("repair_plan")]
    assert before == ((tmp_path / "elsewhere/a").read_bytes(), (tmp_path / "victim").read_bytes())
    assert [] == leftovers(root) == leftovers(tmp_path / "elsewhere")


def test_holes_stay_holes(ext4: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """A sparse file does not grow on the disk by being repaired."""
    root, copy = ext4.folder / "root", tmp_path / "copy"
    prepare(integrity, root, copy, {"other": b"other"})
    pieces = [(0, blocks(1, tail=0)), (500 * BLOCK, blocks(1, tail=0, seed=2))]
    for folder in (root, copy):
        put_sparse(folder / "a", 900 * BLOCK, pieces)
    age(root / "a")
    integrity.run("scan", root, expect=0)
    flip_bit(root / "a", 500 * BLOCK + 3)
    integrity.run("scrub", root, expect=1)

    integrity.run("repair", root / "a", "--from", copy, "--apply", expect=0)

    assert (root / "a").stat().st_blocks * 512 <= 3 * BLOCK
    assert (root / "a").read_bytes() == (copy / "a").read_bytes()


def test_file_that_lost_its_end(ext4: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """Of a file that is too short the end comes from the copy; one that is too long is cut, and needs none."""
    data, root = blocks(4), ext4.folder / "root"
    prepare(integrity, root, tmp_path / "copy", {"short": data, "long": data, "empty": b""})
    for name, size in (("short", 2 * BLOCK + 5), ("long", 5 * BLOCK), ("empty", 10)):
        before = os.stat(root / name)
        os.truncate(root / name, size)
        os.utime(root / name, ns=(before.st_atime_ns, before.st_mtime_ns))
    integrity.run("scrub", root, expect=1)
    (tmp_path / "copy/long").unlink()
    (tmp_path / "copy/empty").unlink()

    integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", expect=0)

    assert [data, data, b""] == [(root / name).read_bytes() for name in ("short", "long", "empty")]
    integrity.run("scrub", root, expect=0)


def test_immutable_file(ext4: LoopFS, integrity: Box, tmp_path: Path) -> None:
    """What may not be renamed by anybody is told before anything is made."""
    root = ext4.folder / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": blocks(2)})
    flip_bit(root / "a", 9)
    sh("chattr", "+i", root / "a")
    try:
        integrity.run("scrub", root, expect=1)
        done = integrity.run("repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=1)
    finally:
        sh("chattr", "-i", root / "a")
    assert "chattr -i" in done.stdout
    assert not leftovers(root)


@pytest.mark.parametrize("is_gone", [False, True])
def test_append_only_folder(ext4: LoopFS, integrity: Box, tmp_path: Path, is_gone: bool) -> None:
    """A new file could be made there and never be taken away: that is told before, and nothing is left."""
    root = ext4.folder / "root"
    prepare(integrity, root, tmp_path / "copy", {"d/a": blocks(2), "b": b"other"})
    if is_gone:
        integrity.configure(f'{CONFIG}[[root]]\npath = "{root}"\npolicy = "archive"\n')
        (root / "d/a").unlink()
        integrity.run("scan", root, expect=1)
    else:
        damage(root / "d/a", 9)
        integrity.run("scrub", root, expect=1)
    sh("chattr", "+a", root / "d")
    try:
        done = integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", expect=1)
    finally:
        sh("chattr", "-a", root / "d")

    assert "chattr -i -a FOLDER" in done.stdout
    assert not leftovers(root)
    assert query(integrity, "SELECT count(*) FROM meta WHERE key LIKE 'repair/%'") == [(0,)]
    integrity.run("repair", root, "--from", tmp_path / "copy", "--apply", expect=0)


def test_interruption_after_the_exchange(integrity: Box, tmp_path: Path) -> None:
    """The good file stays in its place, which is told and recorded; the damaged one is kept, and named."""
    data, root = blocks(9), tmp_path / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": data})
    damage(root / "a", 9)
    integrity.run("scrub", root, expect=1)
    with context_of(integrity) as context:
        context.pace = _StoppedOnce(context.stop, root / "a")
        repaired = run_repair(context, [root / "a"], [tmp_path / "copy"], RepairOptions(applies=True, discards=True))

    (done,) = repaired.done
    assert repaired.summary.is_interrupted
    assert done.is_repaired
    assert "interrupted" in done.message
    assert [os.fsencode(path) for path in leftovers(root)] == [done.kept]
    assert data == (root / "a").read_bytes()
    integrity.run("findings", expect=0)
    integrity.run("scrub", root, expect=0)


class _StoppedOnce(Pace):
    """Ask for the end as soon as another file stands under a name; it is asked before each reading."""

    def __init__(self, stop: Stop, path: Path) -> None:
        self._stop, self._path, self._inode = stop, path, path.stat().st_ino

    def take(self, size_bytes: int) -> None:
        """See whether it has come to that."""
        if self._path.stat().st_ino != self._inode:
            self._stop.set()


def test_files_that_are_being_repaired_can_be_read_all_the_time(integrity: Box, tmp_path: Path) -> None:
    """Whoever reads the file meanwhile gets the damaged one or the good one, never a part or nothing."""
    data, root = blocks(30), tmp_path / "root"
    prepare(integrity, root, tmp_path / "copy", {"a": data})
    damage(root / "a", 9)
    bad = (root / "a").read_bytes()
    integrity.run("scrub", root, expect=1)
    seen: set[bytes] = set()
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            seen.add((root / "a").read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        integrity.run("repair", root / "a", "--from", tmp_path / "copy", "--apply", expect=0)
    finally:
        is_over.set()
        reader.join()
    assert seen <= {bad, data}
