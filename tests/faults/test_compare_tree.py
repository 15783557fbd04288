"""A root against a mounted copy of it: what was planted is found, nothing else is said, whatever fails meanwhile."""

from __future__ import annotations

import errno
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from integrity.jobs.options import CompareOptions
from integrity.jobs.runner import compare as run_compare
from integrity.model import Outcome
from support.bitrot import flip_bit
from support.cli import Box, make_command
from support.comparing import back_up, compare, counts, put_back, said
from support.faultfs import FaultFS, Rule
from support.flakydisk import FlakyDisk
from support.jobs import open_context
from support.loopfs import LoopFS
from support.planted import age, plant, plant_path
from support.preload import Shims
from support.privileges import let_in, run_as_nobody
from support.rclonemount import mounted_by_rclone
from support.results import get_number, messages, notes
from support.running import Running
from support.shapes import put, put_sparse
from support.stored import query, tamper
from support.waiting import wait_until

MIB = 1 << 20
COUNT = 60
pytestmark = pytest.mark.files(COUNT, size_bytes=3000, is_aged=True)


def names(*numbers: int) -> set[str]:
    return {f"d{number % 7}/{number}.txt" for number in numbers}


@pytest.mark.root
def test_every_difference_is_found_and_none_invented(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """Five of each kind among three thousand files, on a copy whose disk has bad places."""
    root = plant(tmp_path / "root", 3000, size_bytes=3000)
    put(root / "large.bin", os.urandom(3 * MIB + 5))
    integrity.run("scan", root, expect=0)
    back_up(root, tmp_path / "source")
    copy = tmp_path / "source"
    for number in range(5):  # the copy keeps the old version
        plant_path(root, number).write_bytes(b"edited %d" % number)
    for number in range(10, 15):
        plant_path(copy, number).unlink()
    for number in range(20, 25):
        path = plant_path(copy, number)
        times = path.stat()
        path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    for number in range(30, 35):
        os.truncate(plant_path(copy, number), 2999)
    for number in range(40, 45):
        with plant_path(copy, number).open("ab") as file:
            file.write(b"x")
    for number in range(50, 55):
        plant_path(copy, number).write_bytes(os.urandom(3000))
    for number in range(60, 65):
        put(copy / "d0" / f"extra {number}")
        faulty.add(Rule("read", path=f"/d{number % 7}/{number}.txt", errno=errno.EIO))
    with (copy / "large.bin").open("r+b") as file:
        file.seek(2 * MIB)
        file.write(b"other")

    done = compare(integrity, root, "--with", faulty.folder, expect=1)

    assert {
        "copy_stale": names(*range(5)),
        "copy_missing": names(*range(10, 15)),
        "copy_differs": names(*range(30, 35)),  # cut off
        "copy_conflict": names(*range(20, 25)),  # under the same time, and never compared before
        "copy_newer": names(*range(40, 45), *range(50, 55)) | {"large.bin"},
        "copy_unreadable": names(*range(60, 65)),
        "copy_extra": {f"d0/extra {number}" for number in range(60, 65)},
    } == said(done, root)
    assert {
        "verified": 3001 - 5 - 5 - 21 - 5,
        "changed": 21,
        "conflicting": 5,
        "newer": 11,
        "stale": 5,
        "missing": 5,
        "damaged": 5,
        "differing": 5,
        "unreadable": 5,
        "extra": 5,
    } == counts(done)
    (large,) = [one for one in done.findings if str(one["path"]).endswith("large.bin")]
    assert ([2], [[2 * MIB, MIB]]) == (large["blocks"], large["ranges"])
    assert all(one["copy"] == str(faulty.folder) for one in done.findings)


def test_all_in_order(root: Path, copy: Path, integrity: Box) -> None:
    """A good copy is exit 0, every byte of it read back, and no finding."""
    done = compare(integrity, root, "--with", copy, expect=0)
    assert {"verified": COUNT} == counts(done)
    assert (COUNT, 0) == (done.summary["files_read"], done.summary["files_published"])
    assert [] == done.findings


def test_mended_copy_ends_its_findings(root: Path, copy: Path, integrity: Box) -> None:
    """Once the copy is right again the next comparison says so and exits 0; nothing stays open."""
    plant_path(copy, 1).unlink()
    put(plant_path(copy, 2), b"other")
    compare(integrity, root, "--with", copy, expect=1)
    for number in (1, 2):
        shutil.copy2(plant_path(root, number), plant_path(copy, number))
    done = compare(integrity, root, "--with", copy, expect=0)
    assert {"verified": COUNT} == counts(done)
    assert 2 == len(notes(done, "resolved"))
    integrity.run("findings", expect=0)


def test_what_differs_otherwise_now_has_one_finding(root: Path, copy: Path, integrity: Box) -> None:
    """A copy that differed and is missing now has one finding, of the kind that holds."""
    put(plant_path(copy, 2), b"other")
    compare(integrity, root, "--with", copy, expect=1)
    plant_path(copy, 2).unlink()
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"copy_missing": names(2)} == said(done, root)
    assert 1 == len(integrity.findings("findings", expect=1))


def test_deleted_file_ends_the_findings_of_its_copy(root: Path, copy: Path, integrity: Box) -> None:
    """Of a file that is gone on purpose no copy is owed; what its copy has is extra."""
    put(plant_path(copy, 2), b"other")
    compare(integrity, root, "--with", copy, expect=1)
    plant_path(root, 2).unlink()
    done = compare(integrity, root, "--with", copy, expect=0)
    assert {"verified": COUNT - 1, "extra": 1} == counts(done)
    integrity.run("findings", expect=0)


def test_scrub_leaves_findings_about_copies_alone(root: Path, copy: Path, integrity: Box) -> None:
    """That the file is good says nothing of its copy; a scrub neither ends nor meets that finding."""
    put(plant_path(copy, 2), b"other")
    compare(integrity, root, "--with", copy, expect=1)
    integrity.run("scrub", root, expect=0)
    integrity.run("scan", "--full", root, expect=0)
    assert ["copy_newer"] == [one["kind"] for one in integrity.findings("findings", expect=1)]


def test_two_copies_have_findings_of_their_own(root: Path, copy: Path, integrity: Box, tmp_path: Path) -> None:
    """The same file can differ in one copy and be missing in another; mending one leaves the other's finding."""
    other = back_up(root, tmp_path / "other")
    put(plant_path(copy, 2), b"other")
    plant_path(other, 2).unlink()
    compare(integrity, root, "--with", copy, expect=1)
    compare(integrity, root, "--with", other, expect=1)
    assert 2 == len(integrity.findings("findings", expect=1))
    shutil.copy2(plant_path(root, 2), plant_path(copy, 2))
    compare(integrity, root, "--with", copy, expect=0)
    (left,) = integrity.findings("findings", expect=1)
    assert ("copy_missing", str(other)) == (left["kind"], left["copy"])


def test_sizes_at_the_borders_of_blocks(integrity: Box, tmp_path: Path) -> None:
    """Empty, one block, one byte more or less, several blocks: equal ones are equal, one byte off is found in each."""
    sizes = [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB - 1, 9 * MIB + 1]
    root = tmp_path / "root"
    root.mkdir()
    for size in sizes:
        put(root / f"same {size}", os.urandom(size))
        put(root / f"bad {size}", os.urandom(size))
        put(root / f"longer {size}", os.urandom(size))
    copy = back_up(root, tmp_path / "copy")
    for size in sizes:
        with (copy / f"longer {size}").open("ab") as file:
            file.write(b"\0")
        if size:
            with (copy / f"bad {size}").open("r+b") as file:
                file.seek(size - 1)
                last = file.read(1)[0]
                file.seek(size - 1)
                file.write(bytes([last ^ 128]))
    done = compare(integrity, root, "--with", copy, expect=1)
    bad = {f"bad {size}" for size in sizes if size} | {f"longer {size}" for size in sizes}
    assert {"copy_newer": bad} == said(done, root)


def test_odd_names(integrity: Box, tmp_path: Path) -> None:
    """Line feeds, bytes that are no UTF-8, dashes, quotes, braces: compared, named, and the command works in bash."""
    root, copy = os.fsencode(tmp_path / "root"), os.fsencode(tmp_path / "co py")
    odd = [b"new\nline", b"bad\xff\xfe", b"-rf", b"q'uo\"te", b"{path}", b"tab\tand space ", b"\\n", "ü".encode()]
    os.mkdir(root)
    for name in odd:
        put(os.path.join(root, name), b"1" + name)
    back_up(Path(os.fsdecode(root)), Path(os.fsdecode(copy)))
    assert {"verified": len(odd)} == counts(compare(integrity, root, "--with", copy, expect=0))
    for name in odd:
        put(os.path.join(copy, name), b"2" + name)
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"changed": len(odd), "newer": len(odd)} == counts(done)
    for finding in done.findings:
        given = finding["next_steps"]
        assert isinstance(given, list)
        command = str(given[2]["command"]).replace("integrity ", f"{integrity_command()} ", 1)
        assert "--copy-is-right" in command
        subprocess.run(["bash", "-c", f"{command} --apply"], env=integrity.environment, check=True, capture_output=True)
    assert [b"2" + name for name in odd] == [Path(os.fsdecode(os.path.join(root, name))).read_bytes() for name in odd]
    integrity.run("findings", expect=0)


def integrity_command() -> str:
    """Write the program for a shell."""
    return shlex.join(str(part) for part in make_command())


def test_copy_under_a_name_that_is_no_text(root: Path, integrity: Box, tmp_path: Path) -> None:
    """A copy's own path may be any bytes; what findings call it can be given to --with."""
    copy = os.fsencode(tmp_path) + b"/co\xffpy\n"
    subprocess.run(["cp", "-a", root, copy], check=True)
    put(copy + b"/d1/1.txt", b"other")
    done = compare(integrity, root, "--with", copy, expect=1)
    (finding,) = done.findings
    again = compare(integrity, root, "--with", str(finding["copy"]), expect=1)
    assert done.summary["url"] == again.summary["url"]
    shutil.copy2(root / "d1/1.txt", copy + b"/d1/1.txt")
    compare(integrity, root, "--with", copy, expect=0)
    integrity.run("findings", expect=0)
    assert 1 == len(query(integrity, "SELECT url FROM copy"))
    integrity.run("explain", root / "d1/1.txt", expect=0)
    integrity.run("--json", "explain", root / "d1/1.txt", expect=0)
    integrity.run("status", expect=0)


def test_hard_links_and_sparse_files(integrity: Box, tmp_path: Path) -> None:
    """Each name of a file is compared by itself; holes read as zeros on both sides, wherever they are."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    root.mkdir()
    put(root / "a", os.urandom(5000))
    os.link(root / "a", root / "b")
    put_sparse(root / "sparse", 64 * MIB, [(5 * MIB, b"data")])
    put(root / "full", bytes(5 * MIB))
    shutil.copytree(root, copy)  # no links, no holes
    put_sparse(copy / "full", 5 * MIB)
    assert {"verified": 4} == counts(compare(integrity, root, "--with", copy, expect=0))
    put(copy / "b", os.urandom(5000))
    put_sparse(copy / "sparse", 64 * MIB, [(5 * MIB, b"data"), (40 * MIB, b"x")])
    assert {"copy_newer": {"b", "sparse"}} == said(compare(integrity, root, "--with", copy, expect=1), root)


def test_links_are_not_followed(root: Path, copy: Path, integrity: Box, tmp_path: Path) -> None:
    """A symbolic link in the place of a file or folder is not the file, wherever it leads."""
    plant_path(copy, 1).unlink()
    plant_path(copy, 1).symlink_to(plant_path(root, 1))
    shutil.rmtree(copy / "d3")
    (copy / "d3").symlink_to(root / "d3")
    done = compare(integrity, root, "--with", copy, expect=1)
    in_d3 = {str(path.relative_to(root)) for path in (root / "d3").iterdir()}
    assert {"copy_missing": names(1) | in_d3} == said(done, root)


def test_folder_in_the_place_of_a_file(root: Path, copy: Path, integrity: Box) -> None:
    """The file is missing there, what the folder has is extra; and the other way round."""
    plant_path(copy, 1).unlink()
    plant_path(copy, 1).mkdir()
    put(plant_path(copy, 1) / "inside")
    shutil.rmtree(copy / "d2")
    put(copy / "d2")
    done = compare(integrity, root, "--with", copy, expect=1)
    in_d2 = {str(path.relative_to(root)) for path in (root / "d2").iterdir()}
    assert {"copy_missing": names(1) | in_d2, "copy_extra": {"d1/1.txt/inside", "d2"}} == said(done, root)


def test_part_of_a_root_and_part_of_a_copy(root: Path, copy: Path, integrity: Box) -> None:
    """One folder, one file, or a folder with its folder over there: nothing outside of it is said."""
    for number in (1, 2, 8):
        put(plant_path(copy, number), b"other")
    put(copy / "d1" / "extra")
    put(copy / "d2" / "extra")
    compare(integrity, root, "--with", copy, expect=1)
    part = compare(integrity, root / "d1", "--with", copy, expect=1)
    assert {"copy_newer": names(1, 8), "copy_extra": {"d1/extra"}} == said(part, root)
    one = compare(integrity, plant_path(root, 2), "--with", copy, expect=1)
    assert {"copy_newer": names(2)} == said(one, root)
    assert {"changed": 1, "newer": 1} == counts(one)
    good = compare(integrity, plant_path(root, 3), "--with", copy, expect=0)
    assert {"verified": 1} == counts(good)
    folder = compare(integrity, root / "d1", "--with", copy / "d1", expect=1)
    assert {"copy_newer": names(1, 8), "copy_extra": {"d1/extra"}} == said(folder, root)
    two = compare(integrity, root / "d1", root / "d3", "--with", copy, expect=1)
    assert {"copy_newer": names(1, 8), "copy_extra": {"d1/extra"}} == said(two, root)


def test_patterns_hold_from_the_top_of_the_root(root: Path, integrity: Box, tmp_path: Path) -> None:
    """What is left out at the top of the root is not left out of the copy of a folder in it."""
    for folder in (root / "cache", root / "d1" / "cache"):
        folder.mkdir()
        put(folder / "file")
    copy = back_up(root / "d1", tmp_path / "copy")
    integrity.configure(f'[[root]]\npath = "{root}"\nexclude = ["/cache/"]\n')
    done = compare(integrity, root / "d1", "--with", copy, expect=0)
    assert {"verified": len(list((root / "d1").rglob("*.*"))) + 1} == counts(done)


def test_what_was_excluded_later_is_left_out(root: Path, copy: Path, integrity: Box) -> None:
    """A file that is recorded from before and excluded now is neither missing nor in order."""
    integrity.run("scan", root, expect=0)
    integrity.configure(f'[[root]]\npath = "{root}"\nexclude = ["/d1/"]\n')
    count = len(list((root / "d1").iterdir()))
    for option in ((), ("--no-scan",)):
        done = compare(integrity, root, "--with", copy, *option, expect=0)
        assert {"verified": COUNT - count, "skipped": count} == counts(done)


def test_excluded_names_of_the_copy_are_not_extra(root: Path, copy: Path, integrity: Box) -> None:
    """What systems put into every folder by themselves, and what the root leaves out, is no news in the copy."""
    integrity.configure(f'[[root]]\npath = "{root}"\nexclude = ["*.tmp"]\n')
    (copy / "@eaDir").mkdir()
    put(copy / "@eaDir" / "thumb")
    put(copy / "d1" / "x.tmp")
    assert {"verified": COUNT} == counts(compare(integrity, root, "--with", copy, expect=0))


@pytest.mark.root
def test_folder_without_permission(root: Path, copy: Path, nobodys_box: Box) -> None:
    """What can't be looked at is unreadable, exit 3; nothing in it is said to be missing, and the rest is compared."""
    let_in(root)
    let_in(copy)
    (copy / "d3").chmod(0)
    plant_path(copy, 1).chmod(0)
    done = run_as_nobody(nobodys_box, "--json", "compare", str(root), "--with", str(copy))
    (copy / "d3").chmod(0o755)
    in_d3 = {str(path.relative_to(root)) for path in (root / "d3").iterdir()}
    assert 3 == done.code, done.stderr
    assert {"copy_unreadable": names(1) | in_d3} == said(done, root)


@pytest.mark.root
def test_copy_without_permission(root: Path, copy: Path, nobodys_box: Box) -> None:
    """Another day nobody may enter it: nothing was mistyped; it is exit 3 and a finding, as for a disk that is gone."""
    let_in(root)
    let_in(copy)
    assert 0 == run_as_nobody(nobodys_box, "compare", str(root), "--with", str(copy)).code
    copy.chmod(0)
    done = run_as_nobody(nobodys_box, "--json", "compare", str(root), "--with", str(copy))
    copy.chmod(0o755)
    assert 3 == done.code, done.stderr
    assert {"copy_unreadable": {""}} == said(done, root)
    assert "Permission denied" in str(done.findings[0]["message"])


@pytest.mark.root
def test_file_system_that_folds_names(root: Path, copy: Path, integrity: Box, tmp_path: Path) -> None:
    """What is there under another spelling is not comparable, and why is said, whatever is asked for."""
    for number in (1, 2):
        plant_path(copy, number).rename(plant_path(copy, number).with_suffix(".TXT"))
    (copy / "d3").rename(copy / "D3")
    folding = tmp_path / "folding"
    folding.mkdir()
    with mounted_by_rclone(copy, folding, "--vfs-case-insensitive"):
        in_d3 = [str(path.relative_to(root)) for path in (root / "d3").iterdir()]
        done = compare(integrity, root, "--with", folding, expect=3)
        assert {*names(1, 2), *in_d3} == said(done, root)["copy_not_comparable"] - {""}
        assert "under another spelling" in done.stdout
        for part in (plant_path(root, 1), root / "d3"):
            assert {"skipped", "not_comparable"} == set(counts(compare(integrity, part, "--with", folding, expect=3)))


@pytest.mark.parametrize("place", ["itself", "inside", "above", "link"])
def test_copy_that_is_no_other_place(root: Path, integrity: Box, tmp_path: Path, place: str) -> None:
    """The root itself, a folder in it, one above it, or a link to it is refused: exit 2, nothing recorded."""
    (tmp_path / "link").symlink_to(root)
    place_of = {"itself": root, "inside": root / "d1", "above": tmp_path, "link": tmp_path / "link"}
    done = integrity.run("compare", root, "--with", place_of[place], expect=2)
    assert "a copy has to be somewhere else" in done.stderr


@pytest.mark.root
def test_folder_that_is_mounted_twice_is_no_copy(root: Path, integrity: Box, tmp_path: Path) -> None:
    """A bind mount of the root, or of the folder that is compared, is refused."""
    bind = tmp_path / "bind"
    bind.mkdir()
    for source, part in ((root, root), (root / "d1", root / "d1")):
        subprocess.run(["mount", "--bind", source, bind], check=True)
        try:
            assert "is the folder itself" in integrity.run("compare", part, "--with", bind, expect=2).stderr
        finally:
            subprocess.run(["umount", bind], check=True)


def test_hard_linked_copy_is_none(root: Path, integrity: Box, tmp_path: Path) -> None:
    """What shares its inode with the file is the file: never counted as good, with the reason; exit 3."""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-alT", root, copy], check=True)
    plant_path(copy, 1).unlink()
    put_back(root, copy, "d1/1.txt")
    done = compare(integrity, root, "--with", copy, expect=3)
    assert {"verified": 1, "skipped": COUNT - 1, "not_comparable": COUNT - 1} == counts(done)
    assert "the file itself" in str(done.of_type("note")[-1]["message"]) + done.stdout


@pytest.mark.root
def test_unmounted_copy(root: Path, integrity: Box) -> None:
    """An empty mount point is exit 3 and one finding about the copy; nothing is missing, and it ends by itself."""
    with LoopFS("ext4") as disk:
        copy = back_up(root, disk.folder / "copy")
        compare(integrity, root, "--with", disk.folder / "copy", expect=0)
        compare(integrity, root, "--with", disk.folder, expect=3)  # its top has other names
        disk.umount()
        for _ in range(2):
            done = compare(integrity, root, "--with", copy, expect=3)
            assert {"copy_unreadable": {""}} == said(done, root)
            assert {"not_due": COUNT} == counts(done)
        disk.mount()
        assert {"verified": COUNT} == counts(compare(integrity, root, "--with", copy, expect=0))
        integrity.run("findings", expect=0)


@pytest.mark.root
def test_leftovers_below_an_unmounted_disk(root: Path, integrity: Box) -> None:
    """A few old files in the mount point's own folder are not the copy: nothing is said to be missing."""
    with LoopFS("ext4") as disk:
        back_up(root, disk.folder)
        compare(integrity, root, "--with", disk.folder, expect=0)
        disk.umount()
        (disk.folder / "d1").mkdir()
        shutil.copy2(plant_path(root, 1), plant_path(disk.folder, 1))
        for _ in range(2):
            done = compare(integrity, root, "--with", disk.folder, expect=3)
            assert {"copy_unreadable": {""}} == said(done, root)
            assert "is the copy's disk mounted?" in str(done.findings[0]["message"])
        shutil.rmtree(disk.folder / "d1")
        disk.mount()
        assert {"verified": COUNT} == counts(compare(integrity, root, "--with", disk.folder, expect=0))


@pytest.mark.root
@pytest.mark.parametrize("has_leftover", [False, True])
def test_part_of_an_unmounted_copy(root: Path, integrity: Box, has_leftover: bool) -> None:
    """A comparison of one file or folder does not take a mount point for the copy, and forgets nothing."""
    with LoopFS("ext4") as disk:
        copy = back_up(root, disk.folder / "copy")
        put(plant_path(copy, 1), b"other")
        compare(integrity, root, "--with", copy, expect=1)
        disk.umount()
        if has_leftover:
            copy.mkdir()
            put(copy / "note.txt", b"what is no copy")
        for part in (plant_path(root, 1), plant_path(root, 2), root / "d3"):
            done = compare(integrity, part, "--with", copy, expect=3)
            assert {"copy_unreadable": {""}} == said(done, root)
        kinds = sorted(str(one["kind"]) for one in integrity.json("findings", expect=1))
        assert ["copy_newer", "copy_unreadable"] == kinds
        assert "data last read back" in integrity.run("explain", plant_path(root, 2)).stdout
        if has_leftover:
            shutil.rmtree(copy)
        disk.mount()
        plant_path(copy, 2).unlink()
        assert {"missing": 1} == counts(compare(integrity, plant_path(root, 2), "--with", copy, expect=1))


@pytest.mark.root
def test_disks_in_turn(root: Path, integrity: Box, tmp_path: Path) -> None:
    """Two disks that are used in turn at one place: each is compared anew, and it is said that it is another one."""
    place = tmp_path / "place"
    place.mkdir()
    for number in range(2):
        with LoopFS("ext4") as disk:
            back_up(root, disk.folder)
            subprocess.run(["mount", "--bind", disk.folder, place], check=True)
            try:
                done = compare(integrity, root, "--with", place, expect=0)
            finally:
                subprocess.run(["umount", place], check=True)
        assert {"verified": COUNT} == counts(done)
        assert bool(number) == any("another disk" in str(note["message"]) for note in done.of_type("note"))


@pytest.mark.root
def test_disk_that_dies_in_mid_run(integrity: Box, root: Path) -> None:
    """What could not be looked at any more is unreadable or not due, never missing or differing; exit 3."""
    with FlakyDisk("ext4") as disk:
        copy = back_up(root, disk.folder)
        integrity.run("scan", root, expect=0)
        subprocess.run(["sync", "-f", copy], check=True)
        disk.fs.remount()
        rule = disk.add(Rule("read", errno=errno.EIO, skip=40))
        done = compare(integrity, root, "--with", copy, "--no-scan")
        disk.clear(rule)
        assert 3 == done.code, done.stdout
        assert {"copy_unreadable"} == set(said(done, root))
        assert set(counts(done)) <= {"verified", "unreadable", "not_due"}
        disk.fs.remount()
        compare(integrity, root, "--with", copy, expect=0)
        integrity.run("findings", expect=0)


@pytest.mark.root
def test_file_system_that_vanishes_in_mid_run(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """A server that goes away while files are read: exit 3, nothing missing, and all is well when it is back."""
    root = plant(tmp_path / "root", 400, size_bytes=3000)
    integrity.run("scan", root, expect=0)
    back_up(root, tmp_path / "source")
    faulty.add(Rule("read", path="/d3/*", is_hung=True))
    with Running(integrity, "--json", "compare", str(root), "--with", str(faulty.folder), "--no-scan") as running:
        wait_until(lambda: bool(faulty.get_fired()), "a read that hangs")
        faulty.kill()
        done = running.finish()
    assert 3 == done.code, (done.stdout[-2000:], done.stderr)
    assert {"copy_unreadable"} == set(said(done, root))
    assert set(counts(done)) <= {"verified", "unreadable", "not_due"}
    assert len(done.findings) < 150


def test_file_that_grows_while_it_is_compared(root: Path, copy: Path, integrity: Box, shims: Shims) -> None:
    """A copy that is being written is neither good nor bad: exit 3, and no word of damage."""
    integrity.run("scan", root, expect=0)
    put(copy / "d1" / "1.txt", plant_path(root, 1).read_bytes())
    env = shims.meddling("1.txt", f"echo more >>'{copy}/d1/1.txt'")
    done = integrity.run("--json", "compare", root, "--with", copy, "--no-scan", env=env)
    assert 3 == done.code, done.stdout
    assert {"copy_unreadable": names(1)} == said(done, root)


def test_file_that_changes_while_it_is_compared(root: Path, copy: Path, integrity: Box) -> None:
    """Without a scan before it a changed file is judged by what it is now: unstable, to be compared again."""
    integrity.run("scan", root, expect=0)
    plant_path(root, 1).write_bytes(b"edited")
    put_back(root, copy, "d1/1.txt")
    done = compare(integrity, root, "--with", copy, "--no-scan", expect=3)
    assert {"verified": COUNT - 1, "unstable": 1} == counts(done)
    assert {"verified": COUNT} == counts(compare(integrity, root, "--with", copy, "--no-scan", expect=0))


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_comparison_that_is_stopped(faulty: FaultFS, integrity: Box, tmp_path: Path, number: signal.Signals) -> None:
    """Exit 130; what was read counts, the rest is not due and comes first the next time; nothing wrong is kept."""
    root = plant(tmp_path / "root", COUNT, size_bytes=3000)
    integrity.run("scan", root, expect=0)
    back_up(root, tmp_path / "source")
    rule = faulty.add(Rule("read", path="*/3*.txt", is_hung=True))
    args = ("--json", "compare", str(root), "--with", str(faulty.folder), "--no-scan")
    with Running(integrity, *args) as running:
        wait_until(lambda: bool(faulty.get_fired()), "a read that hangs")
        running.signal(number)
        faulty.clear(rule)
        done = running.finish()
    assert 130 == done.code, done.stderr
    assert {"verified", "not_due"} >= set(counts(done))
    assert COUNT == sum(counts(done).values())
    ((kept,),) = query(integrity, "SELECT count(*) FROM copy_file")
    assert counts(done).get("verified", 0) == kept
    integrity.run("findings", expect=0)
    assert {"verified": COUNT} == counts(compare(integrity, root, "--with", faulty.folder, expect=0))


@pytest.mark.root
def test_comparison_that_is_killed(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """Kill -9 leaves no lock and no wrong word; the next run compares what was not, and finds what is there."""
    root = plant(tmp_path / "root", 300, size_bytes=3000)
    integrity.run("scan", root, expect=0)
    back_up(root, tmp_path / "source")
    put(tmp_path / "source" / "d1" / "1.txt", b"other")
    faulty.add(Rule("read", path="/d6/*", delay_s=0.3))
    args = ("--json", "compare", str(root), "--with", str(faulty.folder), "--no-scan", "--jobs", "1")
    with Running(integrity, *args) as running:
        wait_until(lambda: bool(query(integrity, "SELECT 1 FROM copy_file")), "something that was kept", timeout_s=30)
        running.signal(signal.SIGKILL)
        running.finish()
    faulty.clear()
    ((kept,),) = query(integrity, "SELECT count(*) FROM copy_file WHERE vote = 'same'")
    assert 0 < int(str(kept)) < 300
    assert [] == query(
        integrity, "SELECT 1 FROM copy_file WHERE vote <> 'same' AND file_id NOT IN (SELECT file_id FROM finding)"
    )
    done = compare(integrity, root, "--with", faulty.folder, "--byte-limit", "1", "--jobs", "1")
    assert get_number(done.summary, "files_not_due") >= 100
    done = compare(integrity, root, "--with", faulty.folder, expect=1)
    assert {"copy_newer": {"d1/1.txt"}} == said(done, root)


def test_twenty_runs_of_five_percent_read_everything(root: Path, copy: Path, integrity: Box) -> None:
    """Each takes what was not read for longest; after twenty every file was, and each run is in order."""
    integrity.run("scan", root, expect=0)
    options = CompareOptions(str(copy), read_percent=5, scan_first=False)
    with open_context(integrity.catalog) as context:
        for turn in range(1, 21):
            summary = run_compare(context, [bytes(root)], options)
            assert (Outcome.CLEAN, COUNT) == (summary.outcome, summary.counts.known)
            ((read,),) = query(integrity, "SELECT count(read_at) FROM copy_file")
            assert turn * COUNT // 20 <= int(str(read)), turn
    assert COUNT == read


def test_share_ends_no_finding_about_the_others(integrity: Box, tmp_path: Path) -> None:
    """More files differ than have findings of their own: what counts the others stays until they are in order."""
    root = plant(tmp_path / "root", 1100, size_bytes=100)
    age(*root.rglob("*.txt"))
    copy = back_up(root, tmp_path / "copy")
    for number in range(1100):
        plant_path(copy, number).write_bytes(b"%100d" % number)
    compare(integrity, root, "--with", copy, expect=1)
    compare(integrity, root, "--with", copy, "--read-percent", "5", expect=1)
    assert "" in {str(one["path"])[len(str(root)) :] for one in integrity.json("findings", expect=1)}


def test_missing_files_are_told_by_a_share_as_well(root: Path, copy: Path, integrity: Box) -> None:
    """A run that reads a hundredth of the bytes looks at all names and sizes."""
    plant_path(copy, 50).unlink()
    os.truncate(plant_path(copy, 51), 10)
    done = compare(integrity, root, "--with", copy, "--read-percent", "1", expect=1)
    assert {"copy_missing": names(50), "copy_differs": names(51)} == said(done, root)


def test_limits_stop_and_go_on(root: Path, copy: Path, integrity: Box) -> None:
    """A comparison that stops at a limit exits 0; the next one goes on with what was not read."""
    integrity.run("scan", root, expect=0)
    done = compare(integrity, root, "--with", copy, "--no-scan", "--byte-limit", "30000", "--jobs", "1", expect=0)
    first = counts(done)["verified"]
    assert COUNT == sum(counts(done).values())
    for _ in range(20):
        compare(integrity, root, "--with", copy, "--no-scan", "--byte-limit", "30000", "--jobs", "1", expect=0)
        ((read,),) = query(integrity, "SELECT count(read_at) FROM copy_file")
        if read == COUNT:
            break
    assert (first, COUNT) == (min(first, COUNT), read)


def test_time_limit_and_rate(integrity: Box, tmp_path: Path) -> None:
    """At two files a second a second of time is enough for a few; at 2 MiB a second 4 MB take almost two seconds."""
    root = plant(tmp_path / "root", 40, size_bytes=100_000)
    copy = back_up(root, tmp_path / "copy")
    integrity.run("scan", root, expect=0)
    some = compare(
        integrity, root, "--with", copy, "--no-scan", "--rate", "200K", "--time-limit", "1s", "--jobs", "1", expect=0
    )
    assert {"verified", "not_due"} == set(counts(some))
    assert counts(some)["verified"] < 20
    began = time.monotonic()
    compare(integrity, root, "--with", copy, "--no-scan", "--rate", "2M", expect=0)
    assert 1.3 < time.monotonic() - began < 15


@pytest.mark.root
def test_two_comparisons_at_once(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """The second one is refused with exit 4 and says who works on the root."""
    root = plant(tmp_path / "root", 20, size_bytes=3000)
    integrity.run("scan", root, expect=0)
    back_up(root, tmp_path / "source")
    rule = faulty.add(Rule("read", path="/d3/*", is_hung=True))
    args = ("compare", str(root), "--with", str(faulty.folder), "--no-scan")
    with Running(integrity, *args) as running:
        wait_until(lambda: bool(faulty.get_fired()), "a read that hangs")
        refused = integrity.run("compare", root, "--with", faulty.folder, expect=4)
        assert str(running.pid) in refused.stderr
        assert "compare" in refused.stderr
        faulty.clear(rule)
        assert 0 == running.finish().code


@pytest.mark.root
def test_full_disk_under_the_catalog(root: Path, copy: Path, tmp_path: Path) -> None:
    """It is said, with exit 4; when there is room again all is compared and nothing is lost."""
    with LoopFS("ext4", size_bytes=64 << 20) as disk:
        box = Box(disk.folder / "home")
        box.run("scan", root, expect=0)
        for number in range(30):
            put(plant_path(copy, number), b"other")
        filler = disk.folder / "filler"
        subprocess.run(["sh", "-c", f"cat /dev/zero >'{filler}' 2>/dev/null; sync"], check=False)
        done = box.run("compare", root, "--with", copy)
        assert done.code in (3, 4), done.stdout + done.stderr
        assert "this is a bug" not in done.stderr
        filler.unlink()
        assert {"copy_newer": names(*range(30))} == said(compare(box, root, "--with", copy, expect=1), root)


@pytest.mark.root
def test_full_disk_under_temporary_files(integrity: Box, tmp_path: Path) -> None:
    """It is said where room is needed; with room there all is well, and nothing wrong was kept."""
    root, small, copy = tmp_path / "root", tmp_path / "small", tmp_path / "sums"
    root.mkdir()
    for number in range(25_000):
        put(root / str(number), b"x")
    line = hashlib.md5(b"x").hexdigest()
    copy.write_text("".join(f"{line}  {number}\n" for number in range(25_000)))
    integrity.run("scan", root, expect=0)
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "small", small], check=True)
    try:
        full = integrity.run("compare", root, "--with", copy, "--no-scan", env={"SQLITE_TMPDIR": str(small)})
    finally:
        subprocess.run(["umount", small], check=True)
    assert (4, True) == (full.code, "SQLITE_TMPDIR" in full.stderr), full.stderr
    assert {"verified": 25_000} == counts(compare(integrity, root, "--with", copy, "--no-scan", expect=0))
    integrity.run("findings", expect=0)


def test_damaged_record_proves_nothing(root: Path, copy: Path, integrity: Box) -> None:
    """A file whose record is damaged is neither good nor bad in its copy: the catalog is, exit 1."""
    integrity.run("scan", root, expect=0)
    tamper(integrity, "UPDATE file SET xxh3_128 = randomblob(16) WHERE name = ?", [b"1.txt"])
    put(plant_path(copy, 1), b"other")
    for option in ((), ("--no-scan",)):
        done = compare(integrity, root, "--with", copy, *option, expect=1)
        assert {"verified": COUNT - 1, "skipped": 1} == counts(done)
        assert {"catalog_damaged": names(1)} == said(done, root)


def test_damaged_blocks_prove_nothing(integrity: Box, tmp_path: Path) -> None:
    """The same where not the record of a large file is damaged but the digests of its blocks."""
    root = tmp_path / "root"
    root.mkdir()
    put(root / "large", os.urandom(3 * MIB))
    copy = back_up(root, tmp_path / "copy")
    integrity.run("scan", root, expect=0)
    tamper(integrity, "UPDATE block_run SET xxh3_128 = randomblob(length(xxh3_128))")
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"skipped": 1, "not_comparable": 1} == counts(done)
    assert {"catalog_damaged", "copy_not_comparable"} == set(said(done, root))


@pytest.mark.root
def test_rot_in_the_copy(root: Path, integrity: Box) -> None:
    """A bit that flips on the copy's disk is found though its pages are cached and its times as they were."""
    with LoopFS("ext4") as disk:
        large = root / "large.bin"
        put(large, os.urandom(4 * MIB))
        copy = back_up(root, disk.folder)
        subprocess.run(["sync", "-f", copy], check=True)
        compare(integrity, root, "--with", copy, expect=0)
        for path, offset in ((copy / "large.bin", 3 * MIB + 7), (plant_path(copy, 5), 100)):
            path.read_bytes()
            flip_bit(path, offset)
        done = compare(integrity, root, "--with", copy, expect=1)
        assert {"copy_differs": {"large.bin"} | names(5)} == said(done, root)
        assert [3] in [one["blocks"] for one in done.findings]


@pytest.mark.root
def test_wrong_reading_of_the_copy(root: Path, integrity: Box) -> None:
    """A bit that flips once on the way is a transient of the copy: told, and nobody is sent to back up again."""
    with FlakyDisk("ext4") as disk:
        copy = back_up(root, disk.folder)
        subprocess.run(["sync", "-f", copy], check=True)
        disk.flip_in_transit(plant_path(copy, 5), 100, count=1)
        done = compare(integrity, root, "--with", copy, expect=1)
        assert {"transient": names(5)} == said(done, root)
        assert {"verified": COUNT} == counts(done)
        compare(integrity, root, "--with", copy, expect=0)
        integrity.run("findings", expect=0)


def test_thousands_missing_are_one_more_finding(integrity: Box, tmp_path: Path) -> None:
    """Past a thousand of a kind one finding counts the rest; it ends with them, in seconds."""
    root = tmp_path / "root"
    root.mkdir()
    for number in range(1500):
        put(root / str(number), b"%d" % number)
    copy = back_up(root, tmp_path / "copy")
    for number in range(1400):
        (copy / str(number)).unlink()
    began = time.monotonic()
    done = compare(integrity, root, "--with", copy, expect=1)
    assert {"verified": 100, "missing": 1400} == counts(done)
    assert 1001 == len(done.findings)
    assert "400 more files are missing in the copy" in str(done.findings[-1]["message"])
    assert 1001 == len(compare(integrity, root, "--with", copy, expect=1).findings)
    back_up(root, copy)
    compare(integrity, root, "--with", copy, expect=0)
    integrity.run("findings", expect=0)
    assert time.monotonic() - began < 60


def test_read_only_promise(root: Path, copy: Path, integrity: Box) -> None:
    """Neither side is written to, not even its times."""

    def snapshot() -> list[tuple[str, int, int, int]]:
        paths = sorted([*root.rglob("*"), *copy.rglob("*")])
        stats = [(path, path.stat()) for path in paths]
        return [(str(path), one.st_mtime_ns, one.st_ctime_ns, one.st_atime_ns) for path, one in stats]

    put(plant_path(copy, 1), b"other")
    integrity.run("scan", root, expect=0)
    before = snapshot()
    compare(integrity, root, "--with", copy, expect=1)
    assert before == snapshot()


def test_names_that_were_swapped_since_the_backup_are_no_damage(root: Path, copy: Path, integrity: Box) -> None:
    """The copy has the content of one file under the name of another: it is old, and what is damaged is still said."""
    first, second, third, damaged = (plant_path(root, number) for number in (7, 14, 21, 28))
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    first.rename(root / "x")
    second.rename(first)
    third.rename(second)
    (root / "x").rename(third)
    rotten = plant_path(copy, 28)
    rotten.write_bytes(bytes([rotten.read_bytes()[0] ^ 1]) + rotten.read_bytes()[1:])
    os.utime(rotten, ns=(0, damaged.stat().st_mtime_ns))

    result = compare(integrity, root, "--with", copy, expect=1)

    swapped = {os.fspath(path.relative_to(root)) for path in (first, second, third)}
    assert {"copy_stale": swapped, "copy_conflict": {os.fspath(damaged.relative_to(root))}} == said(result, root)
    assert f"the recorded content of {third.relative_to(root)}" in messages(result)
    back_up(root, copy)
    compare(integrity, root, "--with", copy, expect=0)
