"""``compare --blocks`` as its user meets it: both sides of what differs, in one file."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from support.cli import Box, Completed
from support.shapes import damage

MIB = 1 << 20
NAME = "film.mkv"


@pytest.fixture
def root(tmp_path: Path, integrity: Box) -> Path:
    """A recorded folder with a file of several blocks."""
    root = tmp_path / "photos"
    root.mkdir()
    (root / NAME).write_bytes(random.Random(1).randbytes(3 * MIB + 100))
    (root / "other").write_bytes(b"other")
    assert 0 == integrity.run("scan", root).code
    return root


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(root, tmp_path / "backup"))


def put(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def show(integrity: Box, root: Path, copy: object, *options: object, expect: int) -> Completed:
    return integrity.run("compare", "--blocks", root / NAME, "--with", copy, *options, expect=expect)


def test_equal_files(root: Path, copy: Path, integrity: Box) -> None:
    """Equal files are said to be equal, with size and time of both."""
    done = show(integrity, root, copy, expect=0)

    lines = done.stdout.splitlines()
    assert [str(root / NAME), "  result      The two are equal."] == [lines[0], lines[3]]
    assert all("3,145,828 bytes, modified 20" in line for line in lines[1:3])
    assert lines[2].endswith(f": {NAME} in {copy}")
    assert 4 == len(lines)


def test_flipped_bit(root: Path, copy: Path, integrity: Box) -> None:
    """One bit is told with its place, and both bytes stand beside each other."""
    put(root / NAME, MIB + 7, b"A")
    put(copy / NAME, MIB + 7, b"a")

    done = show(integrity, root, copy, expect=1)

    assert "One bit differs: bit 5 of byte 1,048,583 (0x41 in your file, 0x61 in the backup)." in done.stdout
    assert f"       1,048,583  41{' ' * 21}  A{' ' * 7} | 61{' ' * 21}  a" == done.stdout.splitlines()[-1]


def test_many_ranges_and_long_ones(root: Path, copy: Path, integrity: Box) -> None:
    """The first 64 bytes of the first 16 ranges are shown, the others counted."""
    put(copy / NAME, 8192, bytes(4096))
    for number in range(20):
        put(copy / NAME, MIB + number * 1000 + 13, b"\x1b[31mred\n")  # nine bytes, two rows

    done = show(integrity, root, copy, expect=1)

    assert "4,032 more bytes not shown" in done.stdout
    assert "5 more ranges not shown" in done.stdout
    rows = [line for line in done.stdout.splitlines() if line.lstrip()[:1].isdigit() and " | " in line]
    assert 8 + 15 * 2 == len(rows)


def test_no_byte_reaches_the_terminal_unprinted(root: Path, copy: Path, integrity: Box) -> None:
    """Of escapes and other control characters only dots are printed."""
    put(root / NAME, 100, bytes(range(256)) * 2)
    put(copy / NAME, 100, bytes(255 - byte for byte in range(256)) * 2)

    done = show(integrity, root, copy, expect=1)

    assert set(done.stdout) <= {chr(code) for code in range(0x20, 0x7F)} | {"\n"}


def test_json(root: Path, copy: Path, integrity: Box) -> None:
    """The same as one object, whose fields the page about JSON names."""
    put(copy / NAME, 8192, bytes(4096))

    done = integrity.run("--json", "compare", "--blocks", root / NAME, "--with", copy, expect=1)

    (found,) = done.objects
    assert ("difference", str(root / NAME), str(copy)) == (found["type"], found["path"], found["copy"])
    assert ("fill", "copy", [{"offset": 8192, "length": 4096, "value": 0}]) == (
        found["shape"],
        found["side"],
        found["runs"],
    )
    assert (False, True, 1) == (found["are_equal"], found["is_complete"], found["range_count"])
    (one,) = found["ranges"]  # type: ignore[misc]
    first, length = one["offset"], one["length"]
    assert (root / NAME).read_bytes()[first : first + 64].hex() == one["file"]
    assert (bytes(64).hex(), True) == (one["copy"], 4000 < length <= 4096)


def test_nothing_is_recorded(root: Path, copy: Path, integrity: Box) -> None:
    """No run, copy or finding comes of it."""
    put(copy / NAME, 0, b"other")
    show(integrity, root, copy, expect=1)

    assert 0 == integrity.run("findings").code
    assert "copy        none known" in integrity.run("explain", root / NAME, expect=0).stdout


def test_side_that_is_gone(root: Path, copy: Path, integrity: Box) -> None:
    """A side that can't be read is no difference."""
    os.rename(copy / NAME, copy / "moved")
    assert "can't be examined" in show(integrity, root, copy, expect=3).stderr
    os.rename(copy / "moved", copy / NAME)
    (root / NAME).unlink()
    assert f"cannot open {NAME}" in show(integrity, root, copy, expect=3).stderr
    shutil.rmtree(copy)
    show(integrity, root, copy, expect=3)


def test_list_has_no_bytes(root: Path, tmp_path: Path, integrity: Box) -> None:
    """A checksum list is refused, with the reason."""
    sums = tmp_path / "sums.md5"
    sums.write_text(f"{'0' * 32}  {NAME}\n")

    assert "has checksums only" in show(integrity, root, sums, expect=2).stderr


@pytest.mark.parametrize("options", [["--read"], ["--no-scan"], ["--time-limit", "5m"]])
def test_options_that_do_not_fit(root: Path, copy: Path, integrity: Box, options: list[str]) -> None:
    """Options of a comparison are refused, and so are a folder and several files."""
    assert "--blocks goes with --with" in show(integrity, root, copy, *options, expect=2).stderr
    assert "name one file" in integrity.run("compare", "--blocks", root, "--with", copy, expect=2).stderr
    assert "--blocks shows one file" in integrity.run("compare", "--blocks", "--with", copy, expect=2).stderr


def test_explain_leads_here(root: Path, copy: Path, integrity: Box) -> None:
    """Where a copy has other content, the command is named, and can be typed as it stands."""
    damage(copy / NAME, 17)
    integrity.run("compare", root, "--with", copy, expect=1)

    lines = integrity.run("explain", root / NAME).stdout.splitlines()

    command = next(line.partition(":  ")[2] for line in lines if "how the two differ" in line)
    assert f"integrity compare --blocks {root / NAME} --with {copy}" == command
    assert 1 == integrity.run(*command.split()[1:]).code
