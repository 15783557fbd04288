"""A file and its copy differ: who is accused by which witness, and how the difference ends without losing anything."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from support.cli import Box, Completed
from support.comparing import back_up, compare, counts, said, steps
from support.fusemounts import FATS, fat, make_fat
from support.planted import age
from support.results import messages
from support.shapes import put

NAMES = ("a.jpg", "b.jpg", "c.jpg", "d.jpg")
NAME = NAMES[2]
DAY_NS = 86_400 * 10**9


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make files that were written days ago."""
    root = tmp_path / "data"
    root.mkdir()
    for name in NAMES:
        put(root / name, os.urandom(5000))
    age(*(root / name for name in NAMES))
    return root


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """Copy them with their times."""
    return back_up(root, tmp_path / "copy")


def rewrite(path: Path, data: bytes, mtime_ns: int | None = None) -> None:
    """Give a file other content, under its old time or another one."""
    old = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns if mtime_ns is None else mtime_ns))


def change(path: Path, mtime_ns: int | None = None) -> bytes:
    """Change a byte in the middle; return the new content."""
    data = bytearray(path.read_bytes())
    data[2500] ^= 1
    rewrite(path, bytes(data), mtime_ns)
    return bytes(data)


def carry_out(integrity: Box, command: str) -> None:
    """Do what a printed command says, in a shell."""
    program = command.replace("integrity ", f"{integrity.program} ", 1) if command.startswith("integrity ") else command
    subprocess.run(program, shell=True, check=False, env=integrity.environment, capture_output=True)


def test_difference_before_the_first_scan(root: Path, copy: Path, integrity: Box) -> None:
    """Nobody can know which side is right: neither is accused, and nothing is to be overwritten."""
    change(root / NAME)
    integrity.run("scan", root, expect=0)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_conflict": {NAME}} == said(done, root)
    assert {"verified": 3, "changed": 1, "conflicting": 1} == counts(done)
    assert "which one is right is not known" in messages(done)
    assert "No earlier comparison found both equal" in messages(done)
    assert [f"integrity compare --blocks {root / NAME} --with {copy}"] == steps(done, "copy_conflict")


def test_copy_that_was_found_good_and_was_not_written_since(root: Path, tmp_path: Path, integrity: Box) -> None:
    """The earlier reading of the copy's own place is the witness; its date is told."""
    copy = _on_fuse(root, tmp_path)
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=0)
    change(copy / NAME)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_differs": {NAME}} == said(done, root)
    assert "it had a recorded content, and its time is still the same" in messages(done)
    (step,) = steps(done, "copy_differs")
    assert f"integrity compare {root / NAME} --with {copy}" == step


def test_copy_whose_disk_lost_a_write(root: Path, tmp_path: Path, integrity: Box) -> None:
    """What it had before, under the time of what it had since, is damage; an older version with its own time is not."""
    copy = _on_fuse(root, tmp_path)
    integrity.run("scan", root, expect=0)
    former = {name: (root / name).read_bytes() for name in NAMES[:2]}
    times_ns = {name: (root / name).stat().st_mtime_ns for name in NAMES[:2]}
    for name in NAMES[:2]:
        rewrite(root / name, os.urandom(5000), times_ns[name] + DAY_NS)
        shutil.copy2(root / name, copy / name)
    compare(integrity, root, "--with", copy, expect=0)
    rewrite(copy / NAMES[0], former[NAMES[0]])
    rewrite(copy / NAMES[1], former[NAMES[1]], times_ns[NAMES[1]])

    done = compare(integrity, root, "--with", copy, expect=1)

    assert {"copy_differs": {NAMES[0]}, "copy_stale": {NAMES[1]}} == said(done, root)


def _on_fuse(root: Path, tmp_path: Path) -> Path:
    """Make a copy whose file system has no ctime to be trusted."""
    below, above = tmp_path / "below", tmp_path / "above"
    back_up(root, below)
    above.mkdir()
    if shutil.which("bindfs") is None or os.geteuid() != 0:
        pytest.skip("needs bindfs and root")
    subprocess.run(["bindfs", below, above], check=True)
    _MOUNTED.append(above)
    return above


_MOUNTED: list[Path] = []


@pytest.fixture(autouse=True)
def unmount() -> object:
    """Unmount what a test mounted."""
    yield
    while _MOUNTED:
        subprocess.run(["umount", "-l", _MOUNTED.pop()], check=False)


def test_copy_that_was_found_good_and_was_touched_since(root: Path, copy: Path, integrity: Box) -> None:
    """A moved ctime shows that somebody may have written: damaged or rewritten, so neither is overwritten."""
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=0)
    change(copy / NAME)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_conflict": {NAME}} == said(done, root)
    assert "the backup had a recorded content" in messages(done)


def test_copy_that_was_edited(root: Path, copy: Path, integrity: Box) -> None:
    """The copy is newer: it is looked at before anything is copied."""
    integrity.run("scan", root, expect=0)
    rewrite(copy / NAME, os.urandom(9000), (root / NAME).stat().st_mtime_ns + DAY_NS)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_newer": {NAME}} == said(done, root)
    assert {"verified": 3, "changed": 1, "newer": 1} == counts(done)


def test_copy_that_is_older_than_the_first_scan(root: Path, copy: Path, integrity: Box) -> None:
    """History does not know its content, but its time is older: out of date, whatever the size."""
    rewrite(root / NAME, os.urandom(5000), (root / NAME).stat().st_mtime_ns + DAY_NS)
    integrity.run("scan", root, expect=0)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_stale": {NAME}} == said(done, root)


def test_copy_without_times(root: Path, tmp_path: Path, integrity: Box) -> None:
    """``cp -r``: the time of the upload says nothing about the age of the content."""
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, copy_function=shutil.copyfile)
    change(root / NAME)
    integrity.run("scan", root, expect=0)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_conflict": {NAME}} == said(done, root)
    assert "It keeps no modification times; it was written there" in messages(done)


def test_copy_without_times_of_a_file_that_was_edited_later(root: Path, tmp_path: Path, integrity: Box) -> None:
    """What was written there more than a day before the file was modified can't be the file's present content."""
    copy = tmp_path / "copy"
    shutil.copytree(root, copy, copy_function=shutil.copyfile)
    for name in NAMES:
        os.utime(copy / name, ns=(0, (root / name).stat().st_mtime_ns + 5 * DAY_NS))
    rewrite(root / NAME, os.urandom(700), (root / NAME).stat().st_mtime_ns + 10 * DAY_NS)
    integrity.run("scan", root, expect=0)
    assert {"copy_stale": {NAME}} == said(compare(integrity, root, "--with", copy, expect=1), root)


def test_times_that_moved_by_an_hour(root: Path, copy: Path, integrity: Box) -> None:
    """FAT after a change of zone: the shift of all files is taken off, then the times are the same."""
    for name in NAMES:
        os.utime(copy / name, ns=(0, (root / name).stat().st_mtime_ns // (2 * 10**9) * (2 * 10**9) + 3600 * 10**9))
    data = bytearray((copy / NAME).read_bytes())
    data[77] ^= 4
    rewrite(copy / NAME, bytes(data))
    integrity.run("scan", root, expect=0)
    assert {"copy_conflict": {NAME}} == said(compare(integrity, root, "--with", copy, expect=1), root)


@pytest.mark.parametrize("length", [0, 1, 3000])
def test_copy_that_was_cut_off(root: Path, copy: Path, integrity: Box, length: int) -> None:
    """An interrupted copy is how the file begins, which was read and compared."""
    integrity.run("scan", root, expect=0)
    (copy / NAME).write_bytes((root / NAME).read_bytes()[:length])
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_differs": {NAME}} == said(done, root)
    assert f"is incomplete: it has the first {length:,} of 5,000 bytes" in messages(done)


def test_interrupted_copy_is_no_lag(root: Path, copy: Path, integrity: Box) -> None:
    """``behind`` excuses what is older, newer or missing, and never half a file."""
    _configure(integrity, root, copy)
    integrity.run("scan", root, expect=0)
    (copy / NAME).write_bytes((root / NAME).read_bytes()[:3000])
    assert {"copy_differs": {NAME}} == said(compare(integrity, "--with", "nightly", expect=1), root)


def _configure(integrity: Box, root: Path, copy: Path) -> None:
    integrity.configure(
        f'[[root]]\npath = "{root}"\n[[copy]]\nname = "nightly"\nof = "{root}"\nurl = "{copy}"\nbehind = "1d"\n'
    )


def test_lag_covers_what_is_older_newer_and_missing(root: Path, copy: Path, integrity: Box) -> None:
    """All that happened within the lag is counted, and quiet."""
    _configure(integrity, root, copy)
    put(root / "older.log", b"1\n2\n3\n")
    put(copy / "older.log", b"1\n2\n")
    os.utime(copy / "older.log", ns=(0, (root / "older.log").stat().st_mtime_ns - 10**10))
    put(copy / "b.jpg", b"edited just now")
    put(root / "new", b"new")
    integrity.run("scan", root, expect=0)
    done = compare(integrity, "--with", "nightly", expect=0)
    assert {"verified": 3, "not_due": 3, "behind": 3} == counts(done)


def test_lag_does_not_cover_what_should_have_been_backed_up(root: Path, copy: Path, integrity: Box) -> None:
    """A file whose present content is older than the lag is late, whatever the time of its copy."""
    _configure(integrity, root, copy)
    now_ns = time.time_ns()
    os.utime(copy / NAME, ns=(0, now_ns - 5 * DAY_NS))
    rewrite(root / NAME, os.urandom(5000), now_ns - 3 * DAY_NS)
    integrity.run("scan", root, expect=0)
    assert {"copy_stale": {NAME}} == said(compare(integrity, "--with", "nightly", expect=1), root)


def test_what_was_recorded_before_a_file_was_forgotten(root: Path, copy: Path, integrity: Box) -> None:
    """An earlier reading of the file's place had the copy's content, under the same time: the file changed."""
    integrity.run("scan", root, expect=0)
    integrity.run("forget", root / NAME, "--yes", expect=0)
    good = (root / NAME).read_bytes()
    change(root / NAME)
    integrity.run("scan", root, expect=0)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_conflict": {NAME}} == said(done, root)
    assert "Your file changed before it was recorded" in messages(done)
    (command,) = steps(done, "copy_conflict")
    assert command == f"integrity repair {root / NAME} --from {copy} --copy-is-right"
    carry_out(integrity, f"{command} --apply")
    assert good == (root / NAME).read_bytes()


def test_conflict_that_is_decided_for_the_copy(root: Path, copy: Path, integrity: Box) -> None:
    """The file gets the copy's content and is kept; then both are equal, and that is no copied damage."""
    bad = change(root / NAME)
    good = (copy / NAME).read_bytes()
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=1)
    plan = ("repair", root / NAME, "--from", copy, "--copy-is-right")
    integrity.run(*plan, expect=0)
    assert bad == (root / NAME).read_bytes()
    assert ["copy_conflict"] == _open_kinds(integrity)
    integrity.run(*plan, "--apply", expect=0)
    assert good == (root / NAME).read_bytes()
    (kept,) = root.glob(f".{NAME}.integrity-*")
    assert bad == kept.read_bytes()
    assert [] == _open_kinds(integrity)
    assert {"verified": 4} == counts(compare(integrity, root, "--with", copy, expect=0))
    integrity.run("scrub", root, expect=0)


def test_newer_copy_that_is_decided_for(root: Path, copy: Path, integrity: Box) -> None:
    """The file gets its content and its time, so that other backups see that it changed."""
    integrity.run("scan", root, expect=0)
    later = (root / NAME).stat().st_mtime_ns + DAY_NS
    rewrite(copy / NAME, os.urandom(9000), later)
    compare(integrity, root, "--with", copy, expect=1)
    integrity.run("repair", root / NAME, "--from", copy, "--copy-is-right", "--apply", expect=0)
    assert (copy / NAME).read_bytes() == (root / NAME).read_bytes()
    assert later == (root / NAME).stat().st_mtime_ns
    compare(integrity, root, "--with", copy, expect=0)
    integrity.run("scrub", root, expect=0)


def test_file_that_was_edited_after_the_comparison_is_not_replaced(root: Path, copy: Path, integrity: Box) -> None:
    """What somebody wrote since then is nobody's to replace."""
    change(root / NAME)
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=1)
    put(root / NAME, b"edited")
    done = integrity.run("repair", root / NAME, "--from", copy, "--copy-is-right", "--apply", expect=1)
    assert "it was written to since it was recorded" in done.stdout + done.stderr
    assert b"edited" == (root / NAME).read_bytes()


def test_conflict_that_is_decided_for_the_file(root: Path, copy: Path, integrity: Box) -> None:
    """The copy is out of date from then on, until a backup run replaced it."""
    mine = change(root / NAME)
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=1)
    integrity.run("accept", root / NAME, "--with", copy, "--reason", "mine", expect=0)
    assert [] == _open_kinds(integrity)
    assert mine == (root / NAME).read_bytes()
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_stale": {NAME}} == said(done, root)
    subprocess.run(["cp", "--backup=numbered", "-p", root / NAME, copy / NAME], check=True)
    assert {"verified": 4, "extra": 1} == counts(compare(integrity, root, "--with", copy, expect=0))


def test_nothing_to_decide(root: Path, copy: Path, integrity: Box) -> None:
    """Equal sides are no conflict, and neither decision changes anything."""
    integrity.run("scan", root, expect=0)
    done = integrity.run("accept", root / NAME, "--with", copy, "--reason", "mine", expect=2)
    assert "there is nothing to decide" in done.stderr
    rewrite(copy / NAMES[0], os.urandom(5000))
    done = integrity.run("accept", root / NAME, root / NAMES[0], "--with", copy, "--reason", "mine", expect=2)
    assert f"{root / NAMES[0]}: accepted" in done.stdout
    integrity.run("repair", root / NAME, "--from", copy, "--copy-is-right", "--apply", expect=0)
    assert [] == list(root.glob(".*"))


def test_other_copies_are_told_and_decide_nothing(root: Path, copy: Path, integrity: Box, tmp_path: Path) -> None:
    """A second copy that equals the file may have been made from what is wrong with it."""
    change(root / NAME)
    second = back_up(root, tmp_path / "second")
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", second, expect=0)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_conflict": {NAME}} == said(done, root)
    assert f"Other copies, which do not decide: {second} equals your file" in messages(done)


def test_damage_is_not_accepted_with_a_copy(root: Path, copy: Path, integrity: Box) -> None:
    """The file became something else since it was recorded: that is decided first, and nothing is written."""
    change(root / NAME)
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=1)
    change(root / NAME)
    put(root / NAME, (root / NAME).read_bytes()[::-1])
    accept = ("accept", root / NAME, "--with", copy, "--reason", "mine")
    done = integrity.run(*accept, expect=2)
    assert "is not what was recorded" in done.stderr
    assert ["copy_conflict"] == _open_kinds(integrity)


def test_advice_about_a_copy_of_a_file_that_rots_later(root: Path, tmp_path: Path, integrity: Box) -> None:
    """A file that is found damaged is no longer to be copied over its backup."""
    copy = _on_fuse(root, tmp_path)
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=0)
    change(copy / NAME)
    compare(integrity, root, "--with", copy, expect=1)
    change(root / NAME)
    integrity.run("scrub", root, expect=1)
    (about_copy,) = (one for one in integrity.findings("findings", expect=1) if one["copy"])
    assert "neither the file nor this copy has the recorded content" in str(about_copy["next_steps"])


def test_content_that_came_from_the_copy_is_no_copied_damage(root: Path, copy: Path, integrity: Box) -> None:
    """Somebody gave the file what the copy had first, under its old time."""
    first = (copy / NAME).read_bytes()
    change(root / NAME)
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=1)
    rewrite(root / NAME, first)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"silent_rewrite": {NAME}} == said(done, root)
    assert "The damage was copied" not in messages(done)


def test_file_that_grew_since_a_backup_without_times(root: Path, copy: Path, integrity: Box) -> None:
    """A copy that was made before is out of date; one that was made after, and has less, is incomplete."""
    for number, path in enumerate(copy.iterdir(), 100):
        os.utime(path, ns=(0, path.stat().st_mtime_ns + number * 60 * 10**9))
    last_ns = max(path.stat().st_mtime_ns for path in copy.iterdir())
    rewrite(root / NAME, (root / NAME).read_bytes() + b"more", last_ns + 60 * 10**9)
    integrity.run("scan", root, expect=0)
    assert {"copy_stale": {NAME}} == said(compare(integrity, root, "--with", copy, expect=1), root)
    os.utime(copy / NAME, ns=(0, last_ns + 120 * 10**9))
    done = compare(integrity, root, "--with", copy, expect=1)
    assert "The backup in" in messages(done)
    assert "is incomplete" in messages(done)
    assert "--backup" in str(done.findings[0]["next_steps"])


def test_plan_of_a_decision_claims_no_proof(root: Path, copy: Path, integrity: Box) -> None:
    """Nothing but the word of the user says that the copy is right; the file that is replaced is kept."""
    change(root / NAME)
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=1)
    printed = integrity.run("repair", root / NAME, "--from", copy, "--copy-is-right", expect=0).stdout
    assert "none but your word" in printed
    assert "matches the checksums recorded" not in printed
    assert "--discard" not in printed
    assert "damaged" not in printed


def test_damaged_copy_is_not_right_by_decision(root: Path, tmp_path: Path, integrity: Box) -> None:
    """What a witness calls damaged is not put over the file."""
    copy = _on_fuse(root, tmp_path)
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=0)
    change(copy / NAME)
    compare(integrity, root, "--with", copy, expect=1)
    good = (root / NAME).read_bytes()
    done = integrity.run("repair", root / NAME, "--from", copy, "--copy-is-right", "--apply", expect=1)
    assert "a finding says that this copy is not right" in done.stdout + done.stderr
    assert good == (root / NAME).read_bytes()


def test_one_file_of_a_copy_without_times(root: Path, copy: Path, integrity: Box) -> None:
    """How the copy keeps times is known from the comparison of all its files."""
    for number, path in enumerate(copy.iterdir(), 100):
        os.utime(path, ns=(0, path.stat().st_mtime_ns + number * 60 * 10**9))
    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=0)
    change(copy / NAME, (copy / NAME).stat().st_mtime_ns + 60 * 10**9)
    assert {"copy_conflict": {NAME}} == said(compare(integrity, root / NAME, "--with", copy, expect=1), root)


def _open_kinds(integrity: Box) -> list[object]:
    done: Completed = integrity.run("--json", "findings")
    return [one["kind"] for one in done.findings]


@pytest.mark.root
@pytest.mark.parametrize("fs_type", FATS)
@pytest.mark.parametrize(("size_bytes", "kind"), [(4000, "copy_differs"), (4040, "copy_conflict")])
def test_copy_without_ctimes_whose_unrecorded_content_changed(
    root: Path, tmp_path: Path, integrity: Box, fs_type: str, size_bytes: int, kind: str
) -> None:
    """Damage keeps the size. Another size under the same time is the work of a program that restores times."""
    point = tmp_path / "usb"
    point.mkdir()
    with fat(point, make_fat(tmp_path / "usb.img", fs_type), fs_type):
        copy = back_up(root, point / "copy")
        rewrite(copy / NAME, os.urandom(4000))
        integrity.run("scan", root, expect=0)
        compare(integrity, root, "--with", copy, expect=1)
        rewrite(copy / NAME, os.urandom(size_bytes))
        assert {kind: {NAME}} == said(compare(integrity, root, "--with", copy, expect=1), root)


def test_advice_follows_a_file_and_its_root(root: Path, copy: Path, integrity: Box) -> None:
    """The command names the place where the file is now, whatever it was called when the damage was found."""

    def listed() -> Completed:
        return integrity.run("--json", "findings")

    integrity.run("scan", root, expect=0)
    compare(integrity, root, "--with", copy, expect=0)
    change(root / NAME)
    integrity.run("scrub", root, expect=1)
    renamed = (root / NAME).rename(root / "new name.jpg")
    integrity.run("scan", root)
    assert [f"integrity repair '{renamed}' --from {copy}"] == steps(listed(), "silent_rewrite")
    moved = root.rename(root.with_name("moved here"))
    integrity.run("root", "rebind", root, moved)
    (command,) = steps(listed(), "silent_rewrite")
    assert f"integrity repair '{moved / renamed.name}' --from {copy}" == command
    integrity.run(*shlex.split(command)[1:], "--apply", expect=0)
