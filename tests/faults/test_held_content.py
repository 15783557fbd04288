"""Changes that a mass change holds back are content like any other: what rots in them is found, and not taken over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.bitrot import rot
from support.cli import Box
from support.results import kinds, met, tallies
from support.shapes import put

pytestmark = pytest.mark.root

MIB = 1 << 20
COUNT = 20


def hold_changes(root: Path, box: Box, *, size: int = 9_000, policy: str = "mutable") -> list[Path]:
    """Record files, rewrite six of them, which is too many, and return those."""
    paths = [root / f"{number}.bin" for number in range(COUNT)]
    for path in paths:
        put(path, os.urandom(size))
    limits = "mass_change = { files = 5, percent = 10 }"
    box.configure(f'[[root]]\npath = "{root}"\npolicy = "{policy}"\n{limits}\n')
    box.run("scan", root, expect=0)
    box.run("scrub", root, expect=0)
    for path in paths[:6]:
        put(path, os.urandom(size + 100))
    return paths[:6]


@pytest.mark.parametrize("size", [9_000, 3 * MIB + 500])
def test_rot_in_a_held_change(data: Path, integrity: Box, size: int) -> None:
    """It is rot of the newer content: accepting the changes takes over what was written, and leaves the finding."""
    changed = hold_changes(data, integrity, size=size)
    assert ["mass_change"] == kinds(integrity.run("--json", "scan", data, expect=1))
    good = changed[0].read_bytes()
    rot(changed[0], 5_000)

    for _ in range(2):
        scrub = integrity.run("--json", "scrub", data, expect=1)
        assert {"rot": str(changed[0]), "mass_change": str(data)} == {
            one["kind"]: one["path"] for one in scrub.findings
        }
        assert {"changed": 5, "damaged": 1, "verified": COUNT - 6} == tallies(scrub)
    integrity.run("accept", data, "--changes", "--reason", "converted", "--yes", expect=0)

    (finding,) = integrity.findings("findings", expect=1)
    assert ("rot", "proven", str(changed[0])) == (finding["kind"], finding["certainty"], finding["path"])
    after = integrity.run("--json", "scrub", data, expect=1)
    assert ([("rot", str(changed[0]))], {"damaged": 1, "verified": COUNT - 1}) == (met(after), tallies(after))
    put(changed[0], good)
    assert {"verified": COUNT} == tallies(integrity.run("--json", "scrub", data, expect=0))
    integrity.run("findings", expect=0)


def test_rot_in_a_held_change_that_was_touched_since(data: Path, integrity: Box) -> None:
    """A chmod after the change is no excuse: what a scan has seen of it since is what later readings are held to."""
    changed = hold_changes(data, integrity)
    integrity.run("scan", data, expect=1)
    os.chmod(changed[0], 0o600)
    integrity.run("scan", data, expect=1)
    rot(changed[0], 5_000)

    scrub = integrity.run("--json", "scrub", data, expect=1)

    assert [("rot", "proven")] == [
        (one["kind"], one.get("certainty")) for one in scrub.findings if one["kind"] == "rot"
    ]


def test_rotten_old_version_in_place_of_a_held_change(data: Path, integrity: Box) -> None:
    """The recorded version comes back with its times and one wrong bit: damage, and nothing of it is left to accept."""
    paths = [data / f"{number}.bin" for number in range(6)]
    changed = hold_changes(data, integrity)
    assert paths == changed
    first = os.urandom(9_000)
    put(changed[0], first)
    os.utime(changed[0], ns=(1_600_000_000 * 10**9, 1_600_000_000 * 10**9))
    integrity.run("accept", changed[0], "--reason", "mine", expect=0)
    put(changed[0], b"newer content")
    integrity.run("scan", data, expect=1)
    put(changed[0], bytes([first[0] ^ 1]) + first[1:])
    os.utime(changed[0], ns=(1_600_000_000 * 10**9, 1_600_000_000 * 10**9))

    scrub = integrity.run("--json", "scrub", data, expect=1)
    assert ("silent_rewrite", str(changed[0])) in met(scrub)
    before = integrity.get_object("file", "explain", changed[0])["digests"]
    integrity.run("accept", data, "--changes", "--reason", "converted", "--yes", expect=0)

    assert before == integrity.get_object("file", "explain", changed[0])["digests"]
    assert [("silent_rewrite", str(changed[0]))] == met(integrity.run("--json", "scrub", data, expect=1))


def test_held_log_that_goes_on_growing(data: Path, integrity: Box) -> None:
    """Growth of what waits is growth, and rot of what waits is rot."""
    logs = [data / f"{number}.log" for number in range(COUNT)]
    for path in logs:
        put(path, os.urandom(9_000))
    limits = "mass_change = { files = 5, percent = 10 }"
    integrity.configure(f'[[root]]\npath = "{data}"\npolicy = "growing"\n{limits}\n')
    integrity.run("scan", data, expect=0)
    integrity.run("scrub", data, expect=0)
    for _ in range(2):
        for path in logs[:6]:
            with open(path, "ab") as file:
                file.write(os.urandom(3_000))
        assert ["mass_change"] == kinds(integrity.run("--json", "scan", data, expect=1))
    rot(logs[0], 10_000)

    scrub = integrity.run("--json", "scrub", data, expect=1)

    assert {"rot": str(logs[0]), "mass_change": str(data)} == {one["kind"]: one["path"] for one in scrub.findings}
    assert {"changed": 5, "damaged": 1, "verified": COUNT - 6} == tallies(scrub)
