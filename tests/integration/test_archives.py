"""Copies that keep versions: repositories of the real restic and borg, and folders by date."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from support.archives import COUNT, LARGE, PASSWORD, Borg, Pair, Restic, with_archives
from support.cli import Box, Completed
from support.loopfs import LoopFS
from support.machine import need_programs
from support.planted import plant, plant_path
from support.results import kinds_by_name, tallies
from support.shapes import damage
from support.waiting import wait_until


def pass_a_second(pair: Pair) -> None:
    """Wait for the next second: both the catalog's times and those of backups are seconds."""
    mark = pair.root.parent / "mark"
    mark.touch()
    began = int(mark.stat().st_mtime)

    def is_over() -> bool:
        mark.touch()
        return int(mark.stat().st_mtime) > began

    wait_until(is_over, "the next second")


def contents(done: Completed) -> list[tuple[str, bool]]:
    """Return what versions have, the newest first."""
    return [(one["content"], one["is_silent"]) for one in done.of_type("version")]


@with_archives(long=Borg)
def test_backup_is_known_by_size_and_time_until_it_is_read(pair: Pair) -> None:
    """Equal sizes and times prove nothing, and are no mistake; --read reads all of it, and both sides."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    listed = pair.compare()
    assert {"not_due": COUNT + 1} == tallies(listed)
    assert COUNT + 1 == listed.summary["files_listed"]
    assert any("lies on the same file system" in one["message"] for one in listed.of_type("note"))

    read = pair.compare("--read")
    assert {"verified": COUNT + 1} == tallies(read)
    assert COUNT + 1 == read.summary["files_read"]
    assert COUNT * 3000 + LARGE <= read.summary["bytes_read"]


@with_archives(long=Borg)
def test_what_is_read_back_is_recorded_as_of_files_that_are_read_on_both_sides(pair: Pair) -> None:
    """Files that need no look here are taken many at a time, with ``--read`` each by itself; suspects are looked at."""
    respelled, suspect = pair.root / "cafe\u0301", plant_path(pair.root, 4)
    respelled.write_text("menu")
    pair.archive.back_up(pair.root)
    respelled.rename(pair.root / "caf\u00e9")
    pair.run("scan")
    damage(pair.large)
    pair.run("scrub", expect=1)
    pair.small.write_text("edited")
    suspect.chmod(0o600)
    pair.run("scan")
    taken: list[list[tuple[object, ...]]] = []
    for how in ("--read-percent=100", "--read"):
        done = pair.compare(how, "--no-scan", expect=1)
        assert {"verified": COUNT, "changed": 1, "damaged": 1} == tallies(done)
        with sqlite3.connect(f"file:{pair.integrity.catalog}?mode=ro", uri=True) as c:
            columns = "file_id, version, vote, read_at NOT NULL, stated, found_version, found_digest, found_size_bytes"
            query = f"SELECT {columns}, found_at NOT NULL, found_mtime_ns, found_as, had_recorded_at FROM copy_file"
            taken.append(c.execute(f"{query} ORDER BY file_id").fetchall())
            one = c.execute("SELECT is_suspect FROM file WHERE name = ?", (suspect.name.encode(),))
            assert [(0,)] == one.fetchall()
    assert COUNT + 2 == len(taken[0])
    assert taken[0] == taken[1]


@with_archives(long=Borg)
def test_reading_that_was_cut_short_goes_on_where_it_stopped(pair: Pair) -> None:
    """What was read before the limit counts; the next run reads the rest, and here, where all is small, all (R7)."""
    for number in range(6):
        plant(pair.root / f"folder{number}", 4, size_bytes=50_000)
    whole = COUNT + 1 + 6 * 4
    pair.archive.back_up(pair.root)
    pair.run("scan")
    bad = plant_path(pair.root / "folder5", 1)
    damage(bad)
    pair.run("compare", "--with", "nightly", "--no-scan")
    first = pair.compare("--read", "--no-scan", "--byte-limit", "500K")
    assert 0 < tallies(first)["verified"] < whole
    assert "missing" not in tallies(first)

    second = pair.compare("--read", "--no-scan", expect=1)
    assert [("silent_rewrite", str(bad))] == [(one["kind"], one["path"]) for one in second.findings]
    third = pair.compare("--read", "--no-scan", expect=1)
    assert whole - 1 == tallies(third)["verified"]


@with_archives(long=Borg)
def test_reading_that_is_cut_short_makes_no_copy_of_a_strange_repository(pair: Pair) -> None:
    """Before the end of its listing nobody knows that nothing in it is recorded (R5)."""
    other = plant(pair.root.parent / "other", 3)
    for path in [one for one in other.rglob("*") if one.is_file()]:
        path.rename(path.with_name(f"not-there-{path.name}"))
    pair.archive.back_up(pair.root)
    pair.configure(of=str(other), path=str(pair.root))
    pair.run("scan", other)
    pair.run("compare", other, "--with", "nightly", "--read", "--no-scan", "--byte-limit", "1")
    with sqlite3.connect(f"file:{pair.integrity.catalog}?mode=ro", uri=True) as c:
        assert [(0,)] == c.execute("SELECT count(*) FROM copy").fetchall()


@with_archives(long=Borg)
def test_damaged_files_are_told_once_with_how_to_repair_them(pair: Pair) -> None:
    """That they are damaged here is known before it is known that the copy has them."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    damaged = [plant_path(pair.root, number) for number in (1, 2, 3)]
    for path in damaged:
        damage(path)
    done = pair.compare("--read", "--no-scan", expect=1)
    assert [*map(str, damaged)] == sorted(str(one["path"]) for one in done.findings)
    assert all("--from nightly" in str(one["next_steps"]) for one in done.findings)


@with_archives()
def test_each_difference_is_told(pair: Pair) -> None:
    """Damaged here, edited since, new since, and gone from the backup; all but these are the same."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    damage(pair.large, LARGE // 2)
    pair.small.write_text("edited")
    (pair.root / "new").write_text("new")
    done = pair.compare("--read", expect=1)
    assert {"verified": COUNT - 1, "changed": 1, "damaged": 1, "missing": 1} == tallies(done)
    found = {(Path(one["path"]).name, one["kind"]) for one in done.findings}
    assert {("large.bin", "silent_rewrite"), (pair.small.name, "copy_stale"), ("new", "copy_missing")} == found
    assert [LARGE // 2 >> 20] == next(one for one in done.findings if one["kind"] == "silent_rewrite")["blocks"]


@with_archives()
def test_damaged_repository_is_unreadable_where_it_is_damaged(pair: Pair) -> None:
    """The tool's own words are told for that file, which is not missing; all others are compared."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    store = pair.archive.find_data()[0]
    store.chmod(0o600)
    damage(store, store.stat().st_size // 2)
    done = pair.compare("--read", expect=3)
    assert {"large.bin": "copy_unreadable"} == kinds_by_name(done)
    assert {"verified": COUNT, "unreadable": 1} == tallies(done)
    (finding,) = done.findings
    assert pair.archive.program in finding["message"]
    assert PASSWORD not in done.stdout + done.stderr


@with_archives(long=Borg)
def test_last_good_version_is_found_and_repairs(pair: Pair) -> None:
    """The damage was backed up by a backup that read all; the version before it mends the one block."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    pair.compare()
    good = pair.large.read_bytes()
    damage(pair.large, 100)
    pair.archive.back_up(pair.root, reads_all=True)
    pair.archive.back_up(pair.root)

    told = pair.run("scrub", expect=1).findings[-1]
    expected = [("differs", True), ("differs", True), ("same", False)]
    assert expected == [(one["content"], one["is_silent"]) for one in told["versions"]]
    (step, *_) = told["next_steps"]
    assert "nightly has it as recorded in 1 of its last 3 versions, the newest of 20" in step["words"]
    assert f"integrity repair {pair.large} --from nightly" == step["command"]
    assert "can be repaired from nightly" in pair.integrity.run("status", expect=1).stdout
    assert "intact: as recorded, 1 version, 20" in pair.integrity.run("explain", pair.large).stdout

    versions = pair.run("versions", pair.large)
    assert expected == contents(versions)
    repaired = pair.run("repair", pair.large, "--from", "nightly", "--apply", "--discard")
    assert good == pair.large.read_bytes()
    assert PASSWORD not in versions.stdout + repaired.stdout


@with_archives(long=Restic)
def test_file_with_several_names_is_repaired(pair: Pair) -> None:
    """Borg stores the content once, and prints nothing under the other name."""
    link = pair.small.with_name("link.bin")
    link.hardlink_to(pair.small)
    pair.archive.back_up(pair.root)
    pair.run("scan")
    good = link.read_bytes()
    damage(link, 7)
    pair.run("scrub", expect=1)
    pair.run("repair", link, "--from", "nightly")
    pair.run("repair", pair.small, "--from", "nightly", "--apply", "--discard")
    assert good == link.read_bytes()


@with_archives(long=Borg)
def test_chosen_versions_are_compared_and_nothing_is_recorded(pair: Pair) -> None:
    """By a day, the name or all of them; what is read may differ under the recorded size and time."""
    pair.archive.back_up(pair.root)
    damage(pair.small, 7)
    pair.archive.back_up(pair.root, reads_all=True)
    damage(pair.small, 7)  # as it was
    pair.run("scan")

    def compare(*options: str, expect: int = 0) -> list[dict[str, Any]]:
        done = pair.compare(*options, expect=expect)
        assert not done.findings
        found = [{key[6:]: value for key, value in one.items() if key.startswith("files_")} for one in done.objects]
        return [{key: value for key, value in one.items() if value} for one in found if one]

    assert [{"listed": COUNT + 1}] == compare("--version", date.today().isoformat())
    newer, older = compare("--all-versions", "--read", expect=1)
    assert ({"same": COUNT, "silent": 1}, {"same": COUNT + 1}) == (newer, older)
    oldest = pair.run("versions", pair.large).of_type("version")[-1]["version"]
    assert [{"same": COUNT + 1}] == compare("--version", oldest, "--read")
    assert "is no version" in pair.compare("--version", "1999-01-01", expect=2).stderr
    pair.run("findings")


@with_archives(long=Borg)
def test_versions_with_different_damage_make_one_good_file(pair: Pair) -> None:
    """The first block is good in the older version only, the last in the newest only."""
    pair.run("scan")
    good, last = pair.large.read_bytes(), LARGE - 1
    for offsets in ([last], [last, 0]):  # a bit that is flipped twice is as before
        damage(pair.large, *offsets)
        pair.archive.back_up(pair.root)
    damage(pair.large, last)
    pair.run("scrub", expect=1)
    pair.run("repair", pair.large, "--from", "nightly", "--apply", "--discard")
    assert good == pair.large.read_bytes()


@with_archives(long=Restic)
def test_finding_leads_to_the_versions(pair: Pair) -> None:
    """As long as a repository can't be looked into, nobody knows which version of a damaged file is good."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    pair.compare()
    damage(pair.large)
    password = pair.archive.password_file.read_text()
    pair.archive.password_file.write_text("wrong\n")
    done = pair.run("scrub", expect=1)
    assert done.findings[-1]["next_steps"][0]["command"].endswith(f"versions {pair.large}")
    (warning,) = [one["message"] for one in done.of_type("note") if "nightly" in one["message"]]
    assert warning.startswith("the versions of nightly can't be looked at: ")

    pair.archive.password_file.write_text(password)
    found = pair.run("scrub", expect=1).findings[-1]
    assert found["next_steps"][0]["command"].endswith(f"repair {pair.large} --from nightly")


@with_archives(long=Borg)
def test_damage_between_two_good_versions_is_seen(pair: Pair) -> None:
    """A file that rotted and was put back has three contents, though the first and the last are alike."""
    pair.run("scan")
    for flips in range(3):
        if flips:
            damage(pair.small)
        pair.archive.back_up(pair.root)
    assert [("same", False), ("differs", True), ("same", False)] == contents(pair.run("versions", pair.small))


@pytest.mark.parametrize("pair", [Restic], indirect=True)
def test_version_that_cant_be_looked_at_is_passed_over(pair: Pair) -> None:
    """What is lost of one backup hides no other: the file is told, and repaired from the one before."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    good, before = pair.small.read_bytes(), set(pair.archive.find_data())
    damage(pair.small)
    pair.archive.back_up(pair.root, reads_all=True)
    for lost in set(pair.archive.find_data()) - before:
        lost.chmod(0o600)
        lost.write_bytes(bytes(lost.stat().st_size))
    damage(pair.small, 1)
    pair.archive.back_up(pair.root, reads_all=True)

    versions = pair.run("versions", pair.small)
    assert [("differs", True), ("unreadable", False), ("same", False)] == contents(versions)
    history = pair.run("history", "nightly", expect=1)
    assert [str(pair.small)] == [one["path"] for one in history.of_type("silent_change")]
    assert "can't be read in" in history.stderr
    told = pair.compare("--all-versions", expect=3)
    assert 2 == len(told.of_type("compared_version"))
    assert 1 == len(told.of_type("version_file"))
    pair.run("scrub", expect=1)
    pair.run("repair", pair.small, "--from", "nightly", "--apply", "--discard")
    assert good == pair.small.read_bytes()


@with_archives(long=Borg)
def test_deleted_file_is_found_in_an_older_version(pair: Pair) -> None:
    """The newest backup does not have it any more, and neither has the catalog."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    pair.small.unlink()
    pair.run("scan")
    pair.archive.back_up(pair.root)
    assert [("missing", False), ("same", False)] == contents(pair.run("versions", pair.small))


@with_archives(long=Borg)
def test_rot_of_before_is_found(pair: Pair) -> None:
    """What rotted before the first scan: the backup read it first, so the file is the one that changed."""
    pair.archive.back_up(pair.root)
    pass_a_second(pair)
    damage(pair.large, 100)
    pair.run("scan")
    done = pair.compare("--read", expect=1)
    (finding,) = done.findings
    assert "copy_conflict" == finding["kind"]
    assert finding["message"].startswith("Your file changed before it was recorded")
    assert any("--copy-is-right" in step["command"] for step in finding["next_steps"])
    assert [("differs", True)] == contents(pair.run("versions", pair.large, expect=1))

    pair.archive.back_up(pair.root, reads_all=True)
    pair.small.write_text("edited")
    pair.archive.back_up(pair.root)
    history = pair.run("history", "nightly", expect=1)
    (change,) = history.of_type("silent_change")
    assert (str(pair.large), "newer") == (change["path"], change["here"])
    pair.run("history", "nightly", pair.small.parent, expect=0)


@with_archives(long=Restic)
def test_wrong_password_is_told(pair: Pair) -> None:
    """The copy can't be reached: that is a finding with the program's words, and no question is asked."""
    pair.archive.back_up(pair.root)
    pair.run("scan")
    pair.archive.password_file.write_text("wrong\n")
    (finding,) = pair.compare(expect=3).findings
    assert "copy_unreadable" == finding["kind"]
    assert "pass" in finding["message"]


@with_archives(long=Borg)
def test_lack_of_a_password_is_told_with_its_setting(pair: Pair) -> None:
    """What the environment of the setup had, the service lacks: the finding names what to write where."""
    pair.archive.back_up(pair.root)
    pair.configure(password_file="")
    pair.run("scan")
    (finding,) = pair.compare(expect=3).findings
    assert "name its password_file or password_command in its [[copy]]" in str(finding["message"])


@with_archives(long=Restic)
def test_folder_of_a_relative_backup_is_found(pair: Pair) -> None:
    """Borg and restic note it as it was named; the folder is at the end of its path then."""
    pair.archive.back_up(pair.root.name, cwd=pair.root.parent)
    pair.run("scan")
    assert COUNT + 1 == pair.compare("--read").summary["files_verified"]


@with_archives(long=Restic)
def test_folder_of_a_backup_from_within_is_found(pair: Pair) -> None:
    """``backup .``: its files stand at the top of the backup."""
    pair.archive.back_up(".", cwd=pair.root)
    pair.run("scan")
    assert COUNT + 1 == pair.compare("--read").summary["files_verified"]


def test_borg_archives_of_other_folders_and_unfinished_ones_are_no_versions(integrity: Box, tmp_path: Path) -> None:
    """A repository often has archives of several folders by turns, and what an interrupted backup left."""
    pair = Pair(integrity, tmp_path, Borg)
    other = plant(tmp_path / "other", 2)
    pair.archive.back_up(pair.root)
    pair.archive.back_up(other)
    pair.small.write_text("backed up in part")
    pair.archive.back_up(pair.root)
    pair.archive.run("rename", f"{pair.archive.place}::backup-3", "backup-3.checkpoint")
    pair.run("scan")
    assert {pair.small.name: "copy_stale"} == kinds_by_name(pair.compare(expect=1))
    assert ["backup-1"] == [one["version"] for one in pair.run("versions", pair.large).of_type("version")]

    pair.configure(path="/elsewhere")
    assert "none of its 2 backups has a folder /elsewhere" in pair.compare(expect=3).findings[0]["message"]


def test_backups_of_another_machine_or_folder_are_not_taken(integrity: Box, tmp_path: Path) -> None:
    """What is there is named, with the key that chooses."""
    pair = Pair(integrity, tmp_path, Restic)
    for host in ("one", "two"):
        pair.archive.back_up(pair.root, host=host)
    pair.run("scan")
    assert "several machines (one, two)" in pair.compare(expect=2).stderr
    pair.configure(host="two")
    pair.compare()
    pair.configure(path="/elsewhere", host="two")
    assert "has no folder /elsewhere;" in pair.compare(expect=3).findings[0]["message"]

    (tmp_path / "other").mkdir()
    other = Restic(tmp_path / "other")
    other.back_up(pair.small.parent)
    shutil.rmtree(pair.archive.place)
    other.place.rename(pair.archive.place)
    pair.configure()
    assert f"its only backup is of {pair.small.parent}, not all of" in pair.compare(expect=2).stderr


@with_archives()
def test_names_that_the_program_does_not_print_are_not_comparable(pair: Pair) -> None:
    """Neither missing nor extra, and what looks like them is told from them."""
    for name in (b"n\xffm", b"n?m", b"line\nbreak"):
        Path(os.fsdecode(bytes(pair.root) + b"/" + name)).write_bytes(name * 10)
    pair.archive.back_up(pair.root)
    pair.run("scan")
    done = pair.compare("--read", expect=3)
    counts = tallies(done)
    assert 1 == counts["skipped"]
    assert COUNT + 2 <= counts["verified"] + counts.get("skipped", 0)
    assert [] == [one for one in done.of_type("note") if one["kind"] == "copy_extra"]
    assert "missing" not in counts


@pytest.fixture
def days(integrity: Box, tmp_path: Path) -> Path:
    """Keep a folder by date, with rsync --link-dest, and watch it."""
    need_programs("rsync")
    root, days = plant(tmp_path / "root", COUNT, size_bytes=3000), tmp_path / "days"
    days.mkdir()
    integrity.configure(
        f'[[root]]\npath = "{root}"\n[[copy]]\nname = "days"\nof = "{root}"\nurl = "snapshots:{days}/*"\n'
    )
    return days


def keep(root: Path, days: Path, name: str, *options: str) -> None:
    """Make a folder of a day."""
    last = max((one for one in days.iterdir()), default=None)
    link = [] if last is None else [f"--link-dest={last}"]
    subprocess.run(["rsync", "-a", *options, *link, f"{root}/", days / name], check=True)


def test_newest_folder_is_compared_and_older_ones_repair(integrity: Box, tmp_path: Path, days: Path) -> None:
    """Folders that are not finished are left out; an older one has what the newest lost."""
    root, file = tmp_path / "root", plant_path(tmp_path / "root", 5)
    keep(root, days, "2026-03-11")
    integrity.run("scan", expect=0)
    good = file.read_bytes()
    damage(file, 10)
    keep(root, days, "2026-03-12_0300", "--checksum")
    (days / "2026-03-13.incomplete").mkdir()
    (days / "latest").symlink_to("2026-03-11")

    done = integrity.run("--json", "compare", "--with", "days", expect=1)
    assert {"verified": COUNT - 1, "changed": 1} == tallies(done)
    versions = integrity.run("--json", "versions", file, expect=0)
    assert [("2026-03-12_0300", "differs"), ("2026-03-11", "same")] == [
        (one["version"], one["content"]) for one in versions.of_type("version")
    ]
    (change,) = integrity.run("--json", "history", "days", expect=1).of_type("silent_change")
    assert (str(file), "2026-03-11", "2026-03-12_0300", "older") == (
        *(change[key] for key in ("path", "older", "newer", "here")),
    )
    integrity.run("repair", file, "--from", "days", "--apply", "--discard", expect=0)
    assert good == file.read_bytes()


def test_empty_folder_is_no_version(integrity: Box, tmp_path: Path, days: Path) -> None:
    """A backup that never came to pass hides neither the versions before it nor those after it."""
    root, file = tmp_path / "root", plant_path(tmp_path / "root", 5)
    keep(root, days, "2026-03-11")
    integrity.run("scan", expect=0)
    good = file.read_bytes()
    damage(file, 10)
    keep(root, days, "2026-03-13", "--checksum")
    for empty in ("2026-03-12", "2026-03-14"):
        (days / empty).mkdir()

    done = integrity.run("--json", "compare", "--with", "days", expect=1)
    assert {"verified": COUNT - 1, "changed": 1} == tallies(done)
    assert any("2026-03-14 is empty, so 2026-03-13 was compared" in str(one["message"]) for one in done.of_type("note"))
    versions = integrity.run("--json", "versions", file, expect=0)
    assert [("differs", True), ("same", False)] == contents(versions)
    (change,) = integrity.run("--json", "history", "days", expect=1).of_type("silent_change")
    assert ("2026-03-11", "2026-03-13") == (change["older"], change["newer"])
    integrity.run("repair", file, "--from", "days", "--apply", "--discard", expect=0)
    assert good == file.read_bytes()


def test_only_empty_folders_are_a_disk_that_is_away(integrity: Box, days: Path) -> None:
    """Nothing is called missing for it."""
    (days / "2026-03-11").mkdir()
    integrity.run("scan", expect=0)
    done = integrity.run("compare", "--with", "days", expect=3)
    assert "is empty: its disk is not mounted" in done.stdout


def test_copy_without_versions_is_refused(integrity: Box, tmp_path: Path) -> None:
    """In words that say which kinds have some."""
    root = plant(tmp_path / "root", 3)
    shutil.copytree(root, tmp_path / "copy")
    integrity.run("scan", root, expect=0)
    for command in (["versions", plant_path(root, 1)], ["history", tmp_path / "copy", root]):
        assert "restic:, borg: and snapshots:" in integrity.run(*command, expect=2).stderr


def run_btrfs(*words: str | Path) -> None:
    """Run a command about subvolumes."""
    subprocess.run(["btrfs", "-q", "subvolume", *words], check=True)


@pytest.mark.root("btrfs")
def test_snapshots_of_a_file_system_are_versions(integrity: Box, btrfs: LoopFS) -> None:
    """What snapper and btrbk make: a file that was rewritten in place has its inode in both, and two contents."""
    root, snapshots = (Path(os.fsdecode(btrfs.path(name))) for name in ("data", "snapshots"))
    snapshots.mkdir()
    run_btrfs("create", root)
    plant(root, 5, size_bytes=3000)
    run_btrfs("snapshot", "-r", root, snapshots / "1")
    damage(plant_path(root, 3))
    run_btrfs("snapshot", "-r", root, snapshots / "2")
    integrity.run("scan", root, expect=0)
    copy = f"snapshots:{snapshots}/*"

    done = integrity.run("--json", "versions", plant_path(root, 3), "--with", copy)
    assert [("differs", True), ("same", False)] == contents(done)[::-1]
    history = integrity.run("--json", "history", copy, root, expect=1)
    assert [str(plant_path(root, 3))] == [one["path"] for one in history.of_type("silent_change")]

    assert "lies on the same file system" in integrity.run("compare", root, "--with", copy, expect=0).stdout
    run_btrfs("snapshot", "-r", root, snapshots / "3")
    assert "another disk is there" not in integrity.run("compare", root, "--with", copy, expect=0).stdout
    assert 1 == len(integrity.run("--json", "status").of_type("copy"))
