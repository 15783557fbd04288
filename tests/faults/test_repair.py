"""What happens to files in the middle of their repair: nothing that is written meanwhile is lost, and none is torn."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from integrity.files.span import Pace
from integrity.jobs.repair.plan import PlanOutcome
from integrity.jobs.repair.run import RepairOptions
from integrity.jobs.report import Stop
from support.cli import Box, make_command
from support.faultfs import FaultFS, Rule
from support.loopfs import LoopFS
from support.planted import age
from support.repairs import BLOCK, CONFIG, blocks, context_of, leftovers, run_repair
from support.shapes import damage, put
from support.stored import query
from support.waiting import wait_until

pytestmark = pytest.mark.root

DATA = blocks(2)


def prepare(box: Box, root: Path, copy: Path, contents: dict[str, bytes]) -> None:
    """Record files whose copies are good."""
    box.configure(CONFIG)
    for folder in (root, copy):
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            put(folder / name, content)
    age(*(root / name for name in contents))
    box.run("scan", root, expect=0)


class Damaged(NamedTuple):
    """A root whose file ``sub/a`` was found damaged, and its good copy."""

    box: Box
    root: Path
    copy: Path

    @property
    def file(self) -> Path:
        """The damaged file."""
        return self.root / "sub/a"

    def repair(self, expect: int, *options: str) -> str:
        """Repair it."""
        return self.box.run("repair", self.file, "--from", self.copy, "--apply", *options, expect=expect).stdout

    @contextmanager
    def repairing(self, *options: str, delay: str = "delay_enter=500ms") -> Iterator[Repairing]:
        """Repair it, slowly: each fsync takes a while."""
        command = make_command("--json", "repair", self.file, "--from", self.copy, "--apply", *options)
        strace = [
            "strace",
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "trace=fsync",
            "-e",
            f"inject=fsync:{delay}",
        ]
        one = Repairing()
        with subprocess.Popen([*strace, *command], env=self.box.environment, stdout=subprocess.PIPE) as process:
            yield one
            out, _ = process.communicate(timeout=60)
        one.said, one.code = out, process.returncode


class Repairing:
    """A repair, and what it said and exited with once it has ended."""

    said = b""
    code = -1


@pytest.fixture
def damaged(integrity: Box, tmp_path: Path) -> Damaged:
    """Record two files, and damage one of them."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    prepare(integrity, root, copy, {"sub/a": DATA, "b": b"another"})
    damage(root / "sub/a", 9)
    integrity.run("scrub", root, expect=1)
    return Damaged(integrity, root, copy)


def change(path: Path, offset: int) -> None:
    """Write to a file as a program does."""
    with open(path, "r+b") as file:
        os.pwrite(file.fileno(), b"damaged", offset)


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
    data, root = DATA, each_fs.folder / "root"
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
    age(root / "a", root / "plain")
    age(root / "a", root / "plain")
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


def test_file_system_without_exchange(damaged: Damaged) -> None:
    """Where renameat2 is not known, the two are renamed one after the other."""
    bad = damaged.file.read_bytes()
    for number in ("EINVAL", "ENOSYS"):
        command = make_command("repair", damaged.file, "--from", damaged.copy, "--apply")
        trace = ["-e", "trace=renameat2,renameat,rename", "-e", f"inject=renameat2:error={number}"]
        strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", *trace]
        done = subprocess.run([*strace, *command], env=damaged.box.environment, capture_output=True, check=False)
        assert 0 == done.returncode, done
        assert DATA == damaged.file.read_bytes()
        assert [bad] == [path.read_bytes() for path in leftovers(damaged.root)]
        leftovers(damaged.root)[0].unlink()
        damage(damaged.file, 9)
        damaged.box.run("scrub", damaged.root, expect=1)


@pytest.mark.parametrize("is_late", [False, True])
def test_file_that_is_written_while_the_new_one_is_made(damaged: Damaged, is_late: bool) -> None:
    """At the latest the last look before the exchange sees it: the new file is taken away, the written one stays."""
    with damaged.repairing(delay="delay_enter=2s:when=1") as repairing:
        mtime_ns = damaged.file.stat().st_mtime_ns if is_late else None  # what it is given last
        wait_until(lambda: is_made(damaged.root, mtime_ns), "the new file")
        change(damaged.file, 5)

    assert 1 == repairing.code
    assert (b"changed since it was examined" if is_late else b"changed") in repairing.said
    assert b"damaged" in damaged.file.read_bytes()
    assert not leftovers(damaged.root)
    assert query(damaged.box, "SELECT count(*) FROM meta WHERE key LIKE 'repair/%'") == [(0,)]


def is_made(root: Path, mtime_ns: int | None) -> bool:
    """Say whether a new file has bytes, or already all but its name."""
    stats = [path.stat() for path in leftovers(root)]
    return any(stat.st_size if mtime_ns is None else stat.st_mtime_ns == mtime_ns for stat in stats)


@pytest.mark.parametrize("is_mtime_kept", [False, True])
def test_file_that_is_written_right_after_the_exchange(damaged: Damaged, is_mtime_kept: bool) -> None:
    """What is recorded is what was verified, so the write is a change to the next scrub, and no rot."""

    def write(_: float) -> bool:
        (damage if is_mtime_kept else change)(damaged.file, BLOCK)
        return False

    with context_of(damaged.box) as context:
        context.wait = write
        (done,) = run_repair(context, [damaged.file], [damaged.copy]).done

    assert done.is_repaired
    assert "changed after it was verified" in done.message
    damaged.box.run("findings", expect=0)
    scrubbed = damaged.box.findings("scrub", damaged.root, expect=1 if is_mtime_kept else 0)
    assert (["silent_rewrite"] if is_mtime_kept else []) == [one["kind"] for one in scrubbed]


def test_folder_that_is_moved_away_with_the_new_file(damaged: Damaged, tmp_path: Path) -> None:
    """The new file is taken away where its folder is by then, and what stands in the folder's place is not touched."""
    bad, folder, away = damaged.file.read_bytes(), damaged.file.parent, tmp_path / "away"
    with damaged.repairing() as repairing:
        wait_until(lambda: bool(leftovers(damaged.root)), "the new file")
        folder.rename(away)
        folder.mkdir()

    assert (1, True) == (repairing.code, b'"is_repaired":false' in repairing.said)
    assert [away / "a"] == list(away.iterdir())
    assert [] == list(folder.iterdir())
    folder.rmdir()
    away.rename(folder)
    assert bad == damaged.file.read_bytes()
    damaged.repair(0, "--discard")
    assert DATA == damaged.file.read_bytes()


@pytest.mark.parametrize("is_gone", [False, True])
def test_new_file_that_is_written_while_it_gets_its_name(damaged: Damaged, is_gone: bool) -> None:
    """Renaming moves the ctime as writing does, so a write in between is to be noticed by itself: it is no rot."""
    if is_gone:
        damaged.file.unlink()

    def find_new() -> list[Path]:
        made = [damaged.file] if is_gone else [path for path in leftovers(damaged.root) if path.suffix != ".new"]
        return [path for path in made if path.exists()]

    with damaged.repairing() as repairing:
        wait_until(lambda: bool(find_new()), "the new file on its way")
        damage(find_new()[0], BLOCK)

    assert 0 == repairing.code
    assert b"changed after it was verified" in repairing.said
    assert ["silent_rewrite"] == [one["kind"] for one in damaged.box.findings("scrub", damaged.root, expect=1)]


@pytest.mark.parametrize("option", [(), ("--discard",)])
def test_what_is_saved_right_before_the_exchange_is_kept(damaged: Damaged, option: tuple[str, ...]) -> None:
    """It is in the damaged file, which is kept then though it was to be removed; that is said."""
    with damaged.repairing(*option) as repairing:
        whole = "the whole new file"
        wait_until(lambda: any(path.suffix != ".new" for path in leftovers(damaged.root)), whole)
        change(damaged.file, 5)

    assert 0 == repairing.code
    assert b"its modification time changed since the finding" in repairing.said
    assert DATA == damaged.file.read_bytes()
    (kept,) = leftovers(damaged.root)
    assert b"damaged" == kept.read_bytes()[5:12]


def test_file_that_a_program_has_open_for_writing(damaged: Damaged) -> None:
    """It would go on writing into the file that is kept, and nobody would ever see what."""
    with open(damaged.file, "r+b"):
        assert "open for writing" in damaged.repair(1)
    assert not leftovers(damaged.root)
    damaged.repair(0)


def test_root_that_somebody_works_on(damaged: Damaged) -> None:
    """A scan that runs is not disturbed; who holds the root is said."""
    (root_id,) = query(damaged.box, "SELECT id FROM root")[0]
    with open(f"{damaged.box.catalog}.root-{root_id}.lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = damaged.box.run("repair", damaged.file, "--from", damaged.copy, "--apply", expect=4)
    assert "another job" in done.stderr
    assert not leftovers(damaged.root)


def test_copy_that_says_something_else_the_second_time(damaged: Damaged, tmp_path: Path) -> None:
    """What was good when it was planned is verified again when it is written; if nobody has it good any more, no."""
    bad, options = damaged.file.read_bytes(), RepairOptions(applies=True, hold_bytes=0)
    (tmp_path / "source/sub").mkdir(parents=True)
    put(tmp_path / "source/sub/a", DATA)
    with FaultFS(tmp_path / "source") as copy, context_of(damaged.box) as context:
        copy.add(Rule("read", path="/sub/a", flip=77, skip=1))
        alone = run_repair(context, [damaged.file], [copy.folder], options)
        assert PlanOutcome.REPAIRABLE is alone.plans[0].outcome
        assert not alone.done[0].is_repaired
        assert "no longer is" in alone.done[0].message
        assert bad == damaged.file.read_bytes()
        assert not leftovers(damaged.root)
        copy.clear()
        copy.add(Rule("read", path="/sub/a", flip=77, skip=1))
        assert run_repair(context, [damaged.file], [copy.folder, damaged.copy], options).done[0].is_repaired
    assert DATA == damaged.file.read_bytes()


def test_interruption_after_the_exchange(damaged: Damaged) -> None:
    """The good file stays in its place, which is told and recorded; the damaged one is kept, and named."""
    with context_of(damaged.box) as context:
        context.pace = _StoppedOnce(context.stop, damaged.file)
        options = RepairOptions(applies=True, discards=True)
        repaired = run_repair(context, [damaged.file], [damaged.copy], options)

    (done,) = repaired.done
    assert repaired.summary.is_interrupted
    assert done.is_repaired
    assert "interrupted" in done.message
    assert [os.fsencode(path) for path in leftovers(damaged.root)] == [done.kept]
    assert DATA == damaged.file.read_bytes()
    damaged.box.run("findings", expect=0)
    damaged.box.run("scrub", damaged.root, expect=0)


class _StoppedOnce(Pace):
    """Ask for the end as soon as another file stands under a name; it is asked before each reading."""

    def __init__(self, stop: Stop, path: Path) -> None:
        self._stop, self._path, self._inode = stop, path, path.stat().st_ino

    def take(self, size_bytes: int) -> None:
        """See whether it has come to that."""
        if self._path.stat().st_ino != self._inode:
            self._stop.set()


def test_files_that_are_being_repaired_can_be_read_all_the_time(damaged: Damaged) -> None:
    """Whoever reads the file meanwhile gets the damaged one or the good one, never a part or nothing."""
    bad, seen, is_over = damaged.file.read_bytes(), set[bytes](), threading.Event()

    def read() -> None:
        while not is_over.is_set():
            seen.add(damaged.file.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        damaged.repair(0)
    finally:
        is_over.set()
        reader.join()
    assert seen <= {bad, DATA}
