"""Where the catalog lies: on a full disk, inside the tree it watches, in somebody's folder, used by two at once."""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from integrity.catalog.connection import Catalog
from integrity.cli.session import Session
from integrity.errors import CatalogExists
from support.cli import Box, make_command
from support.faultfs import FaultFS, Rule
from support.loopfs import LoopFS
from support.machine import need_programs
from support.mounts import filled, small_tmpfs
from support.planted import plant, plant_path
from support.privileges import as_nobody, run_as_nobody
from support.results import tallies
from support.running import Running
from support.shapes import put
from support.stored import baselines, count_rows, query
from support.waiting import wait_until

MIB = 1 << 20
PIPES: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}


@pytest.fixture(params=["tmpfs", "ext4 with blocks of 1 KiB"])
def small_box(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Box]:
    """Give the program a catalog on a file system of a few MiB: where pages are blocks, and where they are several."""
    if request.param == "tmpfs":
        with small_tmpfs(tmp_path / "small", 4 * MIB):
            yield Box(tmp_path / "small" / "home")
        return
    with LoopFS("ext4", size_bytes=8 * MIB, mkfs=("-b", "1024", "-m", "0", "-J", "size=1")) as small:
        yield Box(small.folder / "home")


@pytest.mark.root
def test_full_disk_is_4_and_loses_nothing(small_box: Box, tmp_path: Path) -> None:
    """
    A scan that can't write says so and where; what was recorded stays, and is shown.

    With space again the same command works.
    """
    root = plant(tmp_path / "root", 100)
    small_box.run("scan", root, expect=0)
    before = baselines(shutil.copy(small_box.catalog, tmp_path))  # reading it where it is leaves an index of its log
    plant(root / "more", 7000)
    with filled(small_box.home):
        for command in ("scan", "scrub"):
            result = small_box.run(command, root, expect=4)
            assert "disk full" in result.stderr
            assert str(small_box.home) in result.stderr
            assert "nothing is lost" in result.stderr
        for command in (["findings"], ["explain", plant_path(root, 1)], ["root", "list"]):
            small_box.run(*command, expect=0)
        status = small_box.run("status", expect=3).stdout
        assert status.startswith("The disk with the catalog is full")
        assert "100 files" in status
    assert before == baselines(small_box.catalog)
    assert "100 files" in small_box.run("status", expect=0).stdout
    result = small_box.run("--json", "scan", root, expect=0)
    assert {"new": 7000, "not_due": 100} == tallies(result)
    assert 0 == small_box.run("catalog", "check").code


@pytest.mark.root
def test_disk_that_fills_up_in_the_middle(small_box: Box, tmp_path: Path) -> None:
    """What was committed before the disk was full is kept, and the next scan records the rest."""
    root = plant(tmp_path / "root", 100)
    small_box.run("scan", root, expect=0)
    plant(root / "more", 7000)
    with filled(small_box.home, keep_bytes=300_000):
        result = small_box.run("scan", root, expect=4)
        assert "disk full" in result.stderr
    assert 100 <= count_rows(small_box) < 7100
    result = small_box.run("--json", "scan", root, expect=0)
    assert 7100 == sum(tallies(result).values())
    assert 7100 == count_rows(small_box)
    assert 0 == small_box.run("catalog", "check").code
    assert 0 == small_box.run("status").code


@pytest.mark.root
@pytest.mark.parametrize("room", [0, 20_000, 70_000, 120_000])
def test_no_room_for_a_new_catalog(small_box: Box, tmp_path: Path, room: int) -> None:
    """A catalog that can't even be made is 4, leaves no stump behind, and is made when there is room."""
    root = plant(tmp_path / "root", 10)
    small_box.environment  # noqa: B018 - makes the folder
    with filled(small_box.home, keep_bytes=room):
        result = small_box.run("scan", root, expect=4)
        assert "full" in result.stderr or "No space left" in result.stderr
    assert {"new": 10} == tallies(small_box.run("--json", "scan", root, expect=0))


@pytest.mark.root
def test_disk_under_the_catalog_that_dies(tmp_path: Path) -> None:
    """EIO below the catalog is said to be the disk's, exit 4, and not taken for a damaged catalog once it is over."""
    (tmp_path / "source").mkdir()
    root = plant(tmp_path / "root", 28)
    with FaultFS(tmp_path / "source", is_cached=True) as faulty:
        box = Box(faulty.folder / "home")
        box.run("scan", root, expect=0)
        put(root / "new.txt")
        rule = faulty.add(Rule("write", path="*/catalog.db-wal", errno=errno.EIO))
        result = box.run("scan", root, expect=4)
        assert "disk" in result.stderr
        assert str(box.catalog) in result.stderr
        faulty.clear(rule)
        assert {"new": 1, "not_due": 28} == tallies(box.run("--json", "scan", root, expect=0))


def test_catalog_inside_its_root_is_left_out(tmp_path: Path) -> None:
    """Neither the catalog nor what lies beside it for it is recorded, and everybody is warned to move it."""
    root = plant(tmp_path / "root", 28)
    box = Box(root / ".state")
    (box.home / "run").mkdir(parents=True)
    (box.home / "integrity.toml").touch()
    first = box.run("--json", "scan", root, expect=0)
    assert 29 == tallies(first)["new"]
    warnings = [str(note["message"]) for note in first.of_type("note") if note["kind"] == "warning"]
    assert any("lies in this folder" in warning for warning in warnings)
    box.run("catalog", "backup", expect=0)
    for command, tally in (("scan", "not_due"), ("scan", "not_due"), ("scrub", "verified"), ("scan", "not_due")):
        result = box.run("--json", command, root, expect=0)
        assert {tally: 29} == tallies(result, without="skipped"), command
    assert 29 == count_rows(box)


@pytest.mark.root
def test_two_scans_at_once(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """The second is told who is at work, exit 4; status, findings and a scan of another root work at once."""
    plant(tmp_path / "source", 28)
    other = plant(tmp_path / "other", 5)
    integrity.run("scan", other, expect=0)
    rule = faulty.add(Rule("readdir", path="/d3", is_hung=True))
    with Running(integrity, "--json", "scan", faulty.folder) as running:
        wait_until(lambda: bool(faulty.get_fired()), "the listing of d3")
        for command in ("scan", "scrub"):
            result = integrity.run(command, faulty.folder, expect=4)
            assert f"process {running.pid}" in result.stderr
            assert "a scan of it is running" in result.stderr
        assert f"process {running.pid}" in integrity.run("catalog", "restore", "--yes", expect=4).stderr
        assert str(running.pid) in integrity.run("status", expect=0).stdout
        integrity.run("findings", expect=0)
        integrity.run("explain", plant_path(other, 1), expect=0)
        integrity.run("scan", other, expect=0)
        integrity.run("catalog", "backup", expect=0)
        faulty.clear(rule)
        done = running.finish()
    assert 0 == done.code
    assert {"new": 28} == tallies(done)
    integrity.run("scan", faulty.folder, expect=0)


@pytest.mark.root
def test_lock_dies_with_its_process(faulty: FaultFS, integrity: Box, tmp_path: Path) -> None:
    """A kill -9 leaves no stale lock: the next run starts at once and closes the dead one's record."""
    plant(tmp_path / "source", 28)
    rule = faulty.add(Rule("readdir", path="/d3", delay_s=2))
    with Running(integrity, "scan", faulty.folder) as running:
        wait_until(lambda: bool(faulty.get_fired()), "the listing of d3")
    assert running.has_ended
    faulty.clear(rule)
    result = integrity.run("--json", "scan", faulty.folder, expect=0)
    assert 28 == sum(tallies(result).values())


@pytest.mark.root
def test_run_as_root_leaves_the_catalog_to_its_owner(nobodys_box: Box) -> None:
    """After root has scanned, scrubbed and backed up, every file of the catalog is its owner's and he can go on."""
    with as_nobody():
        root = plant(nobodys_box.home.parent / "root", 28)
    assert 0 == run_as_nobody(nobodys_box, "scan", root).code
    owner = nobodys_box.catalog.stat().st_uid
    put(root / "new.txt")
    nobodys_box.run("scrub", root, expect=0)
    nobodys_box.run("catalog", "backup", expect=0)
    names = [name for name in nobodys_box.home.iterdir() if name.name.startswith("catalog")]
    assert 3 <= len(names)
    assert {owner} == {name.stat().st_uid for name in names}
    put(plant_path(root, 1), b"edited")
    assert {"changed": 1, "not_due": 28} == tallies(run_as_nobody(nobodys_box, "--json", "scan", root))
    assert 0 == run_as_nobody(nobodys_box, "scrub", root).code


def test_first_scans_of_one_folder_at_once(integrity: Box, tmp_path: Path) -> None:
    """Both make it a root, if a catalog is there or not: one records it, the others wait or are told who is at work."""
    for name in ("first", "second"):
        root = plant(tmp_path / name, 28)
        scans = [subprocess.Popen(make_command("scan", root), env=integrity.environment, **PIPES) for _ in range(5)]
        ended = [(scan.communicate()[1], scan.returncode) for scan in scans]
        for told, code in ended:
            assert code == 0 or (code == 4 and b"is running" in told) or b"has just begun" in told, told
        assert 0 in {code for _, code in ended}
    assert 2 * 28 == count_rows(integrity)
    integrity.run("catalog", "check", expect=0)


def test_mistyped_catalog_makes_no_folders(integrity: Box, tmp_path: Path) -> None:
    """A folder that was not there is a slip of the pen; the default place is made."""
    root = plant(tmp_path / "root", 3)
    done = integrity.run("--catalog", tmp_path / "tpyo" / "deeper" / "catalog.db", "scan", root, expect=2)

    assert f"there is no folder {tmp_path / 'tpyo' / 'deeper'}" in done.stderr
    assert not (tmp_path / "tpyo").exists()


@pytest.mark.root
@pytest.mark.parametrize("job", ["scan", "scrub"])
def test_changed_files_are_not_synced_one_by_one(integrity: Box, tmp_path: Path, job: str) -> None:
    """What is found is brought to the disk as often as a run commits, not as often as a file was edited."""
    need_programs("strace")
    root = plant(tmp_path / "root", 300)
    integrity.run("scan", root, expect=0)
    for number in range(300):
        put(plant_path(root, number), b"edited %d" % number)
    log = tmp_path / "log"
    strace = ["strace", "-f", "--seccomp-bpf", "-qq", "-o", log, "-e", "trace=fsync,fdatasync"]

    subprocess.run([*strace, *make_command(job, root)], env=integrity.environment, check=True, **PIPES)

    assert [300] == [count for (count,) in query(integrity, "SELECT count(*) FROM file WHERE version = 2")]
    assert log.read_text().count("sync(") < 30


def test_catalog_that_another_program_made_a_moment_ago_is_used(tmp_path: Path) -> None:
    """Between finding none and making one, another command may have made it."""
    place = bytes(tmp_path / "catalog.db")

    class Folders(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            with suppress(CatalogExists):
                Catalog.create(place).close()
            return super().__iter__()

    with Session(catalog_option=place).open_for_job(Folders([bytes(tmp_path)])) as catalog:
        assert catalog.writes
