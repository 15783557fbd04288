"""Many files that can't be read: each run gets further than the one before, and refused data is no bad disk (R4)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from integrity.errors import Unreadable
from integrity.files.buffers import Buffers
from integrity.files.read_errors import ErrorBudget
from integrity.files.span import ReadMode
from support.bitrot import flip_bit
from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.flakydisk import FlakyDisk
from support.loopfs import LoopFS
from support.reading import make_capability, reading
from support.results import met, tallies

pytestmark = pytest.mark.root

COUNT = 200
FILE_BYTES = 10_000
DAMAGED = [*range(0, 3 * 67, 3)]


def fill(root: Path, count: int = COUNT) -> Path:
    """Make files that are not stored inside metadata, and bring them to the disk."""
    root.mkdir()
    for number in range(count):
        (root / f"{number:03}").write_bytes(os.urandom(FILE_BYTES))
    os.sync()
    return root


def test_files_that_btrfs_refuses_are_all_named_at_once(btrfs: LoopFS, integrity: Box) -> None:
    """Data whose checksum is wrong costs the disk nothing, however much of it there is: nothing is left alone."""
    root = fill(Path(os.fsdecode(btrfs.mnt)) / "root")
    integrity.run("scan", root, expect=0)
    for number in DAMAGED:
        flip_bit(os.fsencode(root / f"{number:03}"), 5000)

    done = integrity.run("--json", "scrub", root, expect=3)

    expected = [("unreadable", str(root / f"{number:03}")) for number in DAMAGED]
    assert expected == sorted(met(done))
    assert {"verified": COUNT - len(DAMAGED), "unreadable": len(DAMAGED)} == tallies(done)
    assert {(4096, 4096)} == {tuple(place) for one in done.findings for place in one["ranges"]}  # type: ignore[attr-defined]
    assert {True} == {"checksum does not match" in str(one["message"]) for one in done.findings}
    flip_bit(os.fsencode(root / "000"), 9000)  # what is refused costs nothing, so it is looked at closely each time
    again = integrity.run("--json", "scrub", root, expect=3)
    assert tallies(done) == tallies(again)
    (grown,) = [one["ranges"] for one in again.findings if one["path"] == str(root / "000")]
    assert [[4096, 5904]] == grown


def test_unreadable_file_under_another_name_is_told_without_a_scan(btrfs: LoopFS, integrity: Box) -> None:
    """Whose finding it is only a walk can tell; that it can't be read is told anyway."""
    root = fill(Path(os.fsdecode(btrfs.mnt)) / "root", 3)
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    flip_bit(os.fsencode(root / "000"), 5000)
    os.rename(root / "000", root / "001")

    done = integrity.run("--json", "scrub", "--no-scan", root, expect=3)

    assert {"verified": 1, "missing": 2} == tallies(done)
    assert "another, unreadable file (" in integrity.run("scrub", "--no-scan", root, expect=3).stdout
    after = integrity.run("--json", "scrub", root, expect=3)
    assert [("unreadable", str(root / "001"))] == met(after)


def test_each_run_on_a_failing_disk_gets_further(flaky_ext4: FlakyDisk, integrity: Box) -> None:
    """What it did not come to is first; files that are known to be unreadable are last and cost one read each."""
    root = fill(Path(os.fsdecode(flaky_ext4.mnt)) / "root", 40)
    integrity.run("scan", root, expect=0)
    integrity.run("scrub", root, expect=0)
    bad = {str(root / f"{number:03}") for number in range(25)}
    for path in bad:
        flaky_ext4.bad_sector(path, 4096)
    named: list[set[object]] = []
    for _ in range(3):
        done = integrity.run("--json", "scrub", "--no-scan", root, expect=3)
        named.append({path for kind, path in met(done) if kind == "unreadable"})

    first, second, third = named
    assert 5 < len(first) < 15  # each costs some of the 100 errors after which the disk is left alone
    assert not first & second
    assert bad == first | second | third
    assert 15 == tallies(done)["verified"]
    errors = integrity.findings("findings", expect=3)
    assert {((4096, 4096),)} == {tuple(map(tuple, one["ranges"])) for one in errors if one["ranges"]}  # type: ignore[call-overload]


def test_known_bad_range_costs_one_failing_read(flaky_ext4: FlakyDisk) -> None:
    """What is known is not looked for again; what is bad besides is found as always."""
    path = flaky_ext4.path("f")
    Path(os.fsdecode(path)).write_bytes(os.urandom(3 << 20))
    os.sync()
    flaky_ext4.bad_sector(path, 40_960)
    budget = ErrorBudget()
    with reading(flaky_ext4.mnt, ReadMode.DISK, budget=budget) as reader, Buffers(1 << 20) as buffers:
        with reader.open(b"f", ((40_960, 4096),)) as file, pytest.raises(Unreadable) as caught:
            list(file.segments(buffers))
        assert (((40_960, 4096),), 1) == (caught.value.ranges, budget.errors)
        flaky_ext4.clear()
        flaky_ext4.bad_sector(path, 2 << 20)
        with reader.open(b"f", ((40_960, 4096),)) as file:
            list(file.segments(buffers))
            with pytest.raises(Unreadable) as caught:
                file.finish()
        assert ((2 << 20, 4096),) == caught.value.ranges


@pytest.mark.parametrize("code", [errno.EBADMSG, errno.EUCLEAN])
def test_damaged_metadata_is_no_dying_device(faulty: FaultFS, tmp_path: Path, code: int) -> None:
    """ext4 and xfs say so of their own records: the file is unreadable, and the disk is read on."""
    (tmp_path / "source" / "f").write_bytes(os.urandom(2 << 20))
    faulty.add(Rule("read", errno=code))
    budget = ErrorBudget()
    capability = make_capability("fuse.faulty")
    with (
        reading(faulty.mnt, ReadMode.DISK, capability=capability, budget=budget) as reader,
        reader.open(b"f") as file,
        Buffers(1 << 20) as buffers,
    ):
        list(file.segments(buffers))
        with pytest.raises(Unreadable) as caught:
            file.finish()

    assert (((0, 2 << 20),), 0) == (caught.value.ranges, budget.errors)
