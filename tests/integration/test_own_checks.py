"""Files that fail the checks of their formats are findings, which hold nothing back."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from support.cli import Box, JsonObject
from support.formats import MAKERS, flip
from support.service import Service
from support.stored import query
from support.waiting import wait_until

CONFIG = """
[[root]]
path = "{0}/photos"
inspect = true

[[copy]]
name = "nightly"
of = "{0}/photos"
url = "{0}/backup"
"""
NAMES = ("a.png", "b.zip", "c.jpg", "notes.txt")


@pytest.fixture
def photos(integrity: Box, tmp_path: Path) -> Path:
    """Make four files of which ``a.png`` was damaged before anything was recorded."""
    integrity.configure(CONFIG.format(tmp_path))
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, name in enumerate(NAMES[:3]):
        MAKERS[{"a.png": "PNG", "b.zip": "zip", "c.jpg": "JPEG"}[name]][1](random.Random(number), folder / name)
    (folder / "notes.txt").write_text("notes")
    damage(folder / "a.png")
    return folder


def damage(path: Path) -> None:
    """Flip a bit of a file, as a disk does: its times stay."""
    before = path.stat()
    path.write_bytes(flip(path.read_bytes(), 8 * 300))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def invalid(found: list[JsonObject]) -> list[str]:
    return [os.path.basename(str(one["path"])) for one in found if one["kind"] == "invalid"]


def first_command(found: JsonObject) -> str:
    return found["next_steps"][0]["command"]


def count_open(integrity: Box) -> int:
    return len(invalid(integrity.findings("findings")))


def test_damage_that_is_older_than_the_record_is_found_by_the_next_scrub(integrity: Box, photos: Path) -> None:
    """The finding says by what, and since when; nothing is frozen, no backup is held up, and the status counts."""
    integrity.run("scan", expect=0)

    [found] = integrity.findings("scrub", expect=1)

    assert (found["kind"], found["path"]) == ("invalid", str(photos / "a.png"))
    assert "By the checksum inside it (PNG), this file is damaged: the checksum of its chunk IDAT" in found["message"]
    assert "It was so when it was first recorded" in found["message"]
    integrity.run("gate", photos, expect=0)
    [(frozen,)] = sqlite3.connect(integrity.catalog).execute("SELECT sum(is_frozen) FROM file")
    assert frozen == 0
    status = integrity.run("status", expect=1).stdout
    assert "1 of 3 files fails its own check: it was damaged before it was recorded." in status
    assert "own checks 3 files tested: 1 pass by checksum, 1 whole by structure, 1 fail\n" in status
    assert integrity.get_object("root", "status")["own_checks"] == {
        "passes": 1, "whole": 1, "fails": 1, "untestable": 0, "no_library": 0, "unknown": 1,
        "open": 1, "since_recorded": 1,
    }  # fmt: skip


def test_a_file_that_was_always_so_is_accepted_once(integrity: Box, photos: Path) -> None:
    """By name or by the number of its finding; it is not reported again while its content stays."""
    integrity.run("scan", expect=0)
    [found] = integrity.findings("scrub", expect=1)

    integrity.run("accept", str(found["id"]), "--reason", "the camera writes it so", "--yes", expect=0)

    assert integrity.findings("scrub", expect=0) == []
    damage(photos / "a.png")
    (photos / "a.png").touch()
    integrity.run("scan", expect=0)
    assert invalid(integrity.findings("scrub", expect=0)) == []  # the bit was flipped back
    (photos / "a.png").write_bytes(flip((photos / "a.png").read_bytes(), 8 * 301))
    integrity.run("scan", expect=0)
    assert invalid(integrity.findings("scrub", expect=1)) == ["a.png"]


def test_the_finding_ends_when_new_content_passes(integrity: Box, photos: Path) -> None:
    """And content that replaced a good one says so."""
    integrity.run("scan", expect=0)
    integrity.run("scrub", expect=1)
    MAKERS["PNG"][1](random.Random(9), photos / "a.png")
    (photos / "b.zip").write_bytes(flip((photos / "b.zip").read_bytes(), 8 * 300))
    integrity.run("scan", expect=0)

    [found] = integrity.findings("scrub", expect=1)

    assert invalid([found]) == ["b.zip"]
    assert "passed: the damage was written then" in found["message"]
    assert count_open(integrity) == 1


def test_only_what_is_new_is_tested_again(integrity: Box, photos: Path) -> None:
    """Each content once; a root without the setting never."""
    integrity.run("scan", expect=0)
    integrity.run("scrub", expect=1)
    done = sqlite3.connect(integrity.catalog).execute("SELECT count(*) FROM file WHERE checked_version = version")
    assert done.fetchone() == (4,)
    integrity.configure(CONFIG.format(photos.parent).replace("inspect = true", ""))
    (photos / "d.png").write_bytes((photos / "a.png").read_bytes())
    integrity.run("scan")

    assert invalid(integrity.findings("scrub")) == []
    assert integrity.get_object("root", "status")["own_checks"] is None


def test_a_deleted_file_has_no_finding_left(integrity: Box, photos: Path) -> None:
    """It ends with its record; a renamed file keeps it."""
    integrity.run("scan", expect=0)
    integrity.run("scrub", expect=1)
    (photos / "a.png").rename(photos / "z.png")
    integrity.run("scan")
    assert invalid(integrity.findings("findings")) == ["z.png"]
    (photos / "z.png").unlink()
    integrity.run("scan")

    assert invalid(integrity.findings("findings")) == []


def test_damage_after_the_recording_is_damage_and_no_such_finding(integrity: Box, photos: Path) -> None:
    """A scrub says it first; its file is not tested while that is open."""
    integrity.run("scan", expect=0)
    damage(photos / "b.zip")

    found = integrity.findings("scrub", expect=1)

    assert invalid(found) == ["a.png"]
    assert {str(one["kind"]) for one in found} == {"invalid", "silent_rewrite"}


def back_up(photos: Path, name: str) -> tuple[Path, Path]:
    """Make a backup with the times of the files; return a file and its copy."""
    shutil.copytree(photos, photos.parent / "backup", copy_function=shutil.copy2)
    return photos / name, photos.parent / "backup" / name


def compare(integrity: Box, photos: Path) -> JsonObject:
    """Record, compare for the first time, and return the only finding about a copy."""
    integrity.run("scan", photos)
    [found] = [one for one in integrity.findings("compare", photos, "--with", "nightly", "--read") if one["copy"]]
    return found


def test_a_file_that_fails_while_its_backup_passes_is_repaired_from_it(integrity: Box, photos: Path) -> None:
    """At the first comparison, under the same time; the advice is carried out, and ends both findings."""
    file, copy = back_up(photos, "b.zip")
    damage(file)
    integrity.run("scan", photos)
    integrity.run("scrub", expect=1)

    found = compare(integrity, photos)

    assert found["kind"] == "copy_conflict"
    assert "Your file changed before it was recorded; the backup in nightly has what it was" in found["message"]
    assert "The checksum inside your file is wrong (zip: its entry" in found["message"]
    advice = f"integrity repair {file} --from nightly --copy-is-right"
    assert first_command(found) == advice
    own = {str(one["path"]): first_command(one) for one in integrity.findings("findings") if one["kind"] == "invalid"}
    assert own[str(file)] == advice
    integrity.run("repair", file, "--from", "nightly", "--copy-is-right", "--apply", "--yes")
    assert file.read_bytes() == copy.read_bytes()
    integrity.run("scrub")
    assert invalid(integrity.findings("findings")) == ["a.png"]


def test_a_backup_that_fails_while_the_file_passes_is_damaged(integrity: Box, photos: Path) -> None:
    """Without any earlier comparison."""
    _, copy = back_up(photos, "b.zip")
    damage(copy)

    found = compare(integrity, photos)

    assert found["kind"] == "copy_differs"
    assert "The checksum inside the backup is wrong (zip: its entry" in found["message"]


def test_nobody_is_right_if_both_fail(integrity: Box, photos: Path) -> None:
    """Then it is a conflict as before."""
    file, copy = back_up(photos, "b.zip")
    damage(copy)
    file.write_bytes(flip(file.read_bytes(), 8 * 400))
    os.utime(file, ns=(copy.stat().st_atime_ns, copy.stat().st_mtime_ns))

    assert "which one is right is not known" in str(compare(integrity, photos)["message"])


def test_what_no_checksum_covers_must_be_equal(integrity: Box, photos: Path) -> None:
    """The copy that passes has another name of an entry: a program wrote one of them."""
    file, copy = back_up(photos, "b.zip")
    stat = copy.stat()
    copy.write_bytes(copy.read_bytes().replace(b"folder/0.txt", b"folder/Q.txt"))
    os.utime(copy, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    damage(file)

    assert "which one is right is not known" in str(compare(integrity, photos)["message"])


def test_of_two_versions_the_older_is_not_right_because_it_passes(integrity: Box, photos: Path) -> None:
    """The file was edited since the backup, and damaged then."""
    file, _ = back_up(photos, "b.zip")
    MAKERS["zip"][1](random.Random(5), file)
    damage(file)
    os.utime(file, (2_000_000_000, 2_000_000_000))

    assert compare(integrity, photos)["kind"] == "copy_stale"


def test_the_service_tests_what_is_new_in_its_windows(integrity: Box, photos: Path) -> None:
    """What was there before, and a file that comes while a window is open."""
    config = CONFIG.partition("[[copy]]")[0].replace("inspect = true", 'inspect = true\nsettle = "1s"')
    integrity.configure(config.format(photos.parent) + '[schedule]\nscrub = "00:00-24:00"\n')
    with Service(integrity) as service:
        service.wait_begun()
        wait_until(lambda: find_invalid(integrity) == {b"a.png"}, "a finding")
        MAKERS["gzip"][1](random.Random(3), photos / "new.gz")
        damage(photos / "new.gz")
        wait_until(lambda: find_invalid(integrity) == {b"a.png", b"new.gz"}, "another one")
        service.stop()


def find_invalid(integrity: Box) -> set[bytes]:
    return {path for (path,) in query(integrity, "SELECT path FROM finding WHERE kind = 'invalid'")}
