"""``integrity bench``: what one processor and each disk can do; the tables for developers are drawn as well."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import Box, JsonObject

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a folder with enough data to be measured."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.bin").write_bytes(bytes([number]) * (1 << 20))
    return folder


def only(rows: list[JsonObject]) -> JsonObject:
    (row,) = rows
    return row


def test_processor_and_disk_are_measured(integrity: Box, root: Path) -> None:
    """A named folder is read, and nothing is recorded or made."""
    done = integrity.run("--json", "bench", root, expect=0)
    machine, disk = only(done.of_type("machine")), only(done.of_type("bench"))

    assert machine["verify_bytes_per_s"] > machine["record_bytes_per_s"] > 1_000_000  # type: ignore[operator]
    assert [{"path": str(root)}] == disk["folders"]
    assert 8 << 20 == disk["size_bytes"]
    assert disk["bytes_per_s"] is None or disk["bytes_per_s"] > 1_000_000  # type: ignore[operator]
    assert 1 == disk["days"]
    assert not integrity.catalog.exists()


def test_watched_folders_are_measured_in_words(integrity: Box, root: Path) -> None:
    """Without a name those of the catalog and the configuration; folders on one disk share a line."""
    other = root.with_name("music")
    other.mkdir()
    (other / "song.flac").write_bytes(b"la" * 5000)
    integrity.configure(f'[[root]]\npath = "{other}"\n')
    integrity.run("scan", root, expect=0)
    lines = integrity.run("bench", expect=0).stdout.splitlines()

    assert re.fullmatch(
        r"\d+ processors? \(hash core: .+\); one verifies .+/s, and records .+/s of a large file", lines[0]
    )
    assert {str(root), str(other)} <= set(re.split(r", | \(", lines[1]))
    assert re.search(r"8\.0 MiB at .+/s \(measured|assumed\) = a moment; 5 h a day allowed: 1 day", lines[1])


def test_folder_that_is_not_there_is_told(integrity: Box, root: Path) -> None:
    """The others are measured, and the exit code says that not all were."""
    done = integrity.run("--json", "bench", root, "/nonexistent/x", expect=3)

    assert "/nonexistent/x: No such file or directory; its disk was not measured" in done.stderr
    assert only(done.of_type("bench"))


def test_nothing_watched_says_how_to_name_a_folder(integrity: Box) -> None:
    """The processor is measured all the same."""
    assert "to measure a disk" in integrity.run("bench", expect=0).stdout


@pytest.mark.long
def test_tables_for_developers(tmp_path: Path) -> None:
    """Each is measured; nothing is left behind."""
    tiny = ("--size", "64K", "--files", "3", "--runs", "1", "--folder", tmp_path)
    command = [sys.executable, BENCHMARKS / "bench_hashing.py", *tiny]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    tables = ["large", "objects", "tools", "algorithms", "python", "lanes"]
    assert tables == re.findall(r"^(\w+): ", text, re.MULTILINE)
    assert [] == list(tmp_path.iterdir())
