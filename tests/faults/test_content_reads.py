"""Reads that never come back, files and folders that may not be read, and a server (FUSE) that loses files a while."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from integrity.errors import DeviceStalled
from integrity.files.span import ReadMode
from integrity.hashing.digests import want_to_record
from integrity.hashing.engine import Engine
from integrity.hashing.tasks import Failed, Task
from support.cli import Box
from support.faultfs import FaultFS, Rule
from support.planted import plant
from support.privileges import NOBODY, as_nobody, let_in, run_as_nobody
from support.reading import make_capability, reading
from support.results import met, tallies
from support.shapes import put

MIB = 1 << 20

pytestmark = pytest.mark.root


def fill(folder: Path, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        put(folder / name, os.urandom(size))
    os.sync()


def test_device_that_hangs(faulty: FaultFS, tmp_path: Path) -> None:
    """A read that does not come back is given up after a time; the other files are answered for."""
    fill(tmp_path / "source", {"hangs": 5_000, "good": 5_000})
    faulty.add(Rule("read", path="/hangs", is_hung=True))
    try:
        with reading(faulty.mnt, ReadMode.DISK, capability=make_capability("fuse", has_direct_io=False)) as reader:
            engine = Engine(reader, jobs=2, stall_s=3.0)
            tasks = [Task(name, 5 * MIB, want_to_record(blake3=False), MIB) for name in (b"hangs", b"good")]
            results = {result.task.path: result for result in engine.run(tasks)}
    finally:
        faulty.clear()

    stalled = results[b"hangs"]
    assert isinstance(stalled, Failed)
    assert isinstance(stalled.error, DeviceStalled)
    assert not isinstance(results[b"good"], Failed)


def test_file_that_may_not_be_read(tmp_path: Path, integrity: Box) -> None:
    """Without permission a file is unreadable, its record stays; with it again it is verified, whatever chmod did."""
    root = tmp_path / "root"
    root.mkdir()
    fill(root, {"secret": 5_000, "never": 5_000, "open": 5_000})
    for path in root.iterdir():
        os.chown(path, NOBODY, NOBODY)  # of files of others nobody may ask whether they are open for writing
    os.chmod(root / "never", 0)
    let_in(tmp_path)
    integrity.configure("")
    for path in (integrity.home, *integrity.home.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    first = run_as_nobody(integrity, "--json", "scan", root)
    assert (3, {"new": 2, "unreadable": 1}) == (first.code, tallies(first)), first.stderr
    os.chmod(root / "secret", 0)

    scan = run_as_nobody(integrity, "--json", "scan", root)
    scrub = run_as_nobody(integrity, "--json", "scrub", root)

    assert (3, {"not_due": 2, "unreadable": 1}) == (scan.code, tallies(scan))
    assert (3, {"unreadable": 2, "verified": 1}) == (scrub.code, tallies(scrub))
    found = {str(one["path"]): str(one["message"]) for one in scrub.findings}
    assert {str(root / "secret"), str(root / "never")} == set(found)
    assert all("Permission denied" in message for message in found.values())
    for name in ("secret", "never"):
        os.chmod(root / name, 0o644)
    scan = run_as_nobody(integrity, "--json", "scan", root)
    assert (0, {"new": 1, "verified": 1, "not_due": 1}) == (scan.code, tallies(scan))
    scrub = run_as_nobody(integrity, "--json", "scrub", root)
    assert (0, {"verified": 3}) == (scrub.code, tallies(scrub))
    assert 0 == run_as_nobody(integrity, "findings").code


def test_names_in_a_folder_that_may_be_listed_but_not_entered(nobodys_box: Box) -> None:
    """Each name counts as unreadable, new ones and recorded ones, and what is to be done is about permissions."""
    with as_nobody():
        root = plant(nobodys_box.home.parent / "root", 7)
    (root / "new").mkdir()
    put(root / "new" / "a", b"a")
    put(root / "new" / "b", b"b")
    os.chmod(root / "new", 0o644)
    result = run_as_nobody(nobodys_box, "--json", "scan", root)
    assert 3 == result.code
    assert {"new": 7, "unreadable": 2} == tallies(result)
    assert all("looked at: Permission denied" in str(one["message"]) for one in result.findings)
    steps = str([one["next_steps"] for one in result.findings])
    assert "give the user that integrity runs as read access" in steps
    assert not any(word in steps for word in ("smartctl", "repair"))
    os.chmod(root / "new", 0o755)
    assert {"new": 2, "not_due": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scan", root))
    os.chmod(root / "new", 0o644)
    assert {"unreadable": 2, "not_due": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scan", root))
    assert {"unreadable": 2, "verified": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scrub", root))


@pytest.mark.parametrize("rule", [Rule("open", path="/bad", errno=errno.ESTALE), Rule("read", path="/bad", eof=5_000)])
def test_errors_that_go_away(tmp_path: Path, faulty: FaultFS, integrity: Box, rule: Rule) -> None:
    """ESTALE makes a file unreadable; one that ends before its size is neither good nor damaged; both may be over."""
    for name in ("bad", "same"):
        put(tmp_path / "source" / name, os.urandom(9_000))
    integrity.run("scrub", faulty.folder, expect=0)
    faulty.add(rule)

    done = integrity.run("--json", "scrub", faulty.folder, expect=3)

    if rule.errno:
        assert ({"unreadable": 1, "verified": 1}, [("unreadable", str(faulty.folder / "bad"))]) == (
            tallies(done),
            met(done),
        )
    else:
        assert ({"unstable": 1, "verified": 1}, []) == (tallies(done), met(done))
    faulty.clear()
    assert {"verified": 2} == tallies(integrity.run("--json", "scrub", faulty.folder, expect=0))
    integrity.run("findings", expect=0)
