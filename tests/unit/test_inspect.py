"""Files are tested by what their formats state of themselves."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import py7zr
import pytest

from integrity.inspect.formats import FORMATS, find_damaged_beginning, find_format
from integrity.inspect.inspector import Inspector
from integrity.inspect.outcome import CheckResult, OwnCheck
from support.formats import MAKERS, flip

CHECKSUMMED = sorted({one.name for one in FORMATS if one.has_checksum} & MAKERS.keys())
WHOLE = sorted(MAKERS.keys() - set(CHECKSUMMED))
LEAST_CUTS_SEEN = {"JPEG": 4, "GIF": 4, "RAR": 4, "MP3": 3, "TIFF": 4}


@pytest.fixture(scope="module")
def inspector() -> Iterator[Inspector]:
    with Inspector() as one:
        yield one


def ask(inspector: Inspector, path: Path) -> OwnCheck:
    return inspector.inspect_path(os.fsencode(path))


@pytest.mark.parametrize("name", CHECKSUMMED)
def test_every_flipped_bit_of_checksummed_content_is_found(name: str, inspector: Inspector, tmp_path: Path) -> None:
    """Wherever a checksum covers it; what none covers is told, so that nobody takes it for proven."""
    rng = random.Random(name)
    suffix, make = MAKERS[name]
    path = tmp_path / f"file{suffix}"
    for _ in range(3):
        make(rng, path)
        data = path.read_bytes()
        intact = ask(inspector, path)
        assert intact.result is CheckResult.PASSES
        assert intact.uncovered is not None
        covered = [at for at in range(len(data)) if not any(a <= at < b for a, b in intact.uncovered)]
        assert len(covered) > len(data) * 0.9
        for _ in range(25):
            path.write_bytes(flip(data, rng.choice(covered) * 8 + rng.randrange(8)))
            assert ask(inspector, path).result is CheckResult.FAILS
        path.unlink()


@pytest.mark.parametrize("name", WHOLE)
def test_intact_files_are_whole_and_cut_off_ones_are_not(name: str, inspector: Inspector, tmp_path: Path) -> None:
    """Formats without checksums, by structure."""
    rng = random.Random(name)
    suffix, make = MAKERS[name]
    path, cuts_seen = tmp_path / f"file{suffix}", 0
    for _ in range(5):
        make(rng, path)
        assert ask(inspector, path).result is CheckResult.WHOLE
        data = path.read_bytes()
        path.write_bytes(data[: len(data) * 2 // 3])
        cuts_seen += ask(inspector, path).result is CheckResult.FAILS
        path.unlink()
    assert cuts_seen >= LEAST_CUTS_SEEN.get(name, 5)


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_damaged_beginning_is_no_unknown_format(name: str, inspector: Inspector, tmp_path: Path) -> None:
    """One wrong byte in the magic bytes, or a lost first block, in a file that is named for the format."""
    suffix, make = MAKERS[name]
    path = tmp_path / f"file{suffix}"
    make(random.Random(name), path)
    data = path.read_bytes()
    path.write_bytes(bytes(512) + data[512:])
    assert ask(inspector, path).result is CheckResult.FAILS
    if name not in ("MP3", "tar"):
        at = next(at for at, _ in next(one for one in FORMATS if one.name == name).marks[0])
        path.write_bytes(flip(data, at * 8 + 1))
        found = ask(inspector, path).result
        assert found is CheckResult.FAILS


def test_another_kind_of_file_under_a_name_is_not_damaged(inspector: Inspector, tmp_path: Path) -> None:
    """A text called a.png, an empty file, and a PNG called a.jpg, which is tested as what it is."""
    (tmp_path / "a.png").write_bytes(b"just some text " * 100)
    (tmp_path / "b.zip").touch()
    MAKERS["PNG"][1](random.Random(1), tmp_path / "c.png")
    (tmp_path / "c.png").rename(tmp_path / "c.jpg")

    assert ask(inspector, tmp_path / "a.png").result is CheckResult.UNKNOWN
    assert ask(inspector, tmp_path / "b.zip").result is CheckResult.UNKNOWN
    assert ask(inspector, tmp_path / "c.jpg")[:2] == (CheckResult.PASSES, "PNG")
    assert find_format(b"II*\0" + bytes(508), b"raw.NEF") is None
    assert find_damaged_beginning(b"II*\0" + bytes(508), b"raw.NEF") is None


def test_encrypted_and_unknown_methods_cannot_be_tested(inspector: Inspector, tmp_path: Path) -> None:
    """That is never "passes", and never "fails"."""
    with py7zr.SevenZipFile(tmp_path / "a.7z", "w", password="secret") as archive:
        archive.writestr("some content", "a.txt")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as packed:
        packed.writestr("a.txt", "some content")
    data = (tmp_path / "b.zip").read_bytes()
    (tmp_path / "c.zip").write_bytes(data.replace(b"PK\3\4\x14\0\0\0\0\0", b"PK\3\4\x14\0\0\0\x63\0").replace(
        b"PK\1\2\x14\3\x14\0\0\0\0\0", b"PK\1\2\x14\3\x14\0\0\0\x63\0"))  # fmt: skip

    assert ask(inspector, tmp_path / "a.7z").result is CheckResult.UNTESTABLE
    assert ask(inspector, tmp_path / "b.zip").result is CheckResult.PASSES
    assert ask(inspector, tmp_path / "c.zip").result is CheckResult.UNTESTABLE


def test_what_no_checksum_covers_is_told(inspector: Inspector, tmp_path: Path) -> None:
    """Data behind the end of a PNG, names in a zip, tags of FLAC."""
    path = tmp_path / "a.png"
    MAKERS["PNG"][1](random.Random(1), path)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"appended by a phone")

    assert ask(inspector, path).uncovered == ((size, size + 19),)


def test_a_database_in_use_is_not_judged(inspector: Inspector, tmp_path: Path) -> None:
    """Its log beside it has what the file itself lacks."""
    path = tmp_path / "a.sqlite"
    MAKERS["SQLite"][1](random.Random(1), path)
    (tmp_path / "a.sqlite-wal").write_bytes(b"frames")

    assert ask(inspector, path).result is CheckResult.UNTESTABLE


def test_rows_that_break_rules_of_their_database_are_no_damage(inspector: Inspector, tmp_path: Path) -> None:
    """Programs add NOT NULL and CHECK to tables that have older rows; SQLite's check lists these as well."""
    path = tmp_path / "a.sqlite"
    MAKERS["SQLite"][1](random.Random(1), path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE rule (a CHECK (a > 0), b)")
        database.execute("PRAGMA ignore_check_constraints = ON")
        database.executemany("INSERT INTO rule VALUES (?, ?)", [(-1, None)] * 300)
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = replace(sql, ', b', ', b NOT NULL') WHERE name = 'rule'")
        database.commit()

    assert ask(inspector, path).result is CheckResult.WHOLE


def test_the_name_in_a_gzip_is_not_covered(inspector: Inspector, tmp_path: Path) -> None:
    """As gzip(1) writes it: header, name, content, CRC and length."""
    (tmp_path / "some-name.txt").write_bytes(b"content " * 1000)
    subprocess.run(["gzip", str(tmp_path / "some-name.txt")], check=True)

    assert ask(inspector, tmp_path / "some-name.txt.gz").uncovered == ((0, 10 + len("some-name.txt") + 1),)


def test_an_mp3_whose_last_frame_is_cut_off_is_whole(inspector: Inspector, tmp_path: Path) -> None:
    """As recorders and cutters leave it; an end that is missing is another matter."""
    path = tmp_path / "a.mp3"
    MAKERS["MP3"][1](random.Random(1), path)
    path.write_bytes(path.read_bytes()[:-30])

    assert ask(inspector, path).result is CheckResult.WHOLE
