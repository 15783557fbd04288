"""What a person looks at and decides: status, findings, explain, accept, ack, mute, root, forget."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest
import xxhash

from support.cli import Box, JsonObject
from support.expected import expect_crc64nvme
from support.planted import plant

ARCHIVE = '[[root]]\npath = "{path}"\npolicy = "archive"\n'
CAUTIOUS = "[defaults]\nmass_change = {{ files = 2, percent = 10 }}\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with six small files."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(6):
        (folder / f"file{number}").write_text(f"content {number}")
    return folder


@pytest.fixture
def archive(integrity: Box, data: Path) -> Path:
    """The folder as an archive that was scanned; then one file was changed and one removed."""
    integrity.configure(ARCHIVE.format(path=data))
    integrity.run("scan", expect=0)
    (data / "file0").write_text("changed content")
    (data / "file1").unlink()
    integrity.run("scan", expect=1)
    return data


def find_root(integrity: Box, *words: str) -> JsonObject:
    """Return the one root that status tells."""
    return integrity.get_object("root", "status", *words)


def test_status_without_catalog_says_how_to_begin(integrity: Box) -> None:
    """The first command of many users is status."""
    done = integrity.run("status", expect=4)

    assert "nothing has been recorded yet; start with: integrity scan FOLDER" in done.stderr
    assert "bring that catalog: integrity catalog restore FOLDER" in done.stderr
    assert not integrity.catalog.exists()


def test_status_tells_coverage_and_how_to_improve_it(integrity: Box, data: Path) -> None:
    """What was never re-read is counted, until it was."""
    integrity.run("scan", data, expect=0)
    before, text = find_root(integrity), integrity.run("status", expect=0).stdout
    integrity.run("scrub", data, expect=0)
    after = find_root(integrity)

    assert (6, 6, 0) == (before["files"], before["files_never_verified"], after["files_never_verified"])
    assert f"was never verified:  integrity scrub {data}" in text
    assert "@eaDir/" not in text
    assert "@eaDir/" in integrity.run("status", "-v", expect=0).stdout
    assert "Hash core: " in text
    assert before["last_scrub"] is None
    assert isinstance(after["last_scrub"], dict)


def test_broken_promise_is_3(integrity: Box, data: Path) -> None:
    """Files that were not verified in time are a gap, before any run says so."""
    integrity.configure('[defaults]\nverify_every = "1s"\n')
    integrity.run("scan", data, expect=0)
    while not find_root(integrity)["files_overdue"]:
        pass  # each look takes a good part of the second
    done = integrity.run("status", expect=3)

    assert "OVERDUE: 6 files" in done.stdout
    assert integrity.run("status", "--nagios", expect=1).stdout.startswith("INTEGRITY WARNING: 6 overdue")


def test_nagios_line(integrity: Box, data: Path) -> None:
    """One line, its code and figures as plug-ins have them; no catalog is unknown."""
    unknown = integrity.run("status", "--nagios", expect=3).stdout
    integrity.configure(ARCHIVE.format(path=data))
    integrity.run("scan", expect=0)
    good = integrity.run("status", "--nagios", expect=0).stdout
    (data / "file0").write_text("changed")
    integrity.run("scan", expect=1)
    bad = integrity.run("status", "--nagios", expect=2).stdout

    assert unknown.startswith("INTEGRITY UNKNOWN: no catalog")
    assert good.startswith("INTEGRITY OK: 1 root, 6 files")
    assert "| findings=0 overdue=0 files=6" in good
    assert bad.startswith("INTEGRITY CRITICAL: 1 changed")
    assert {1} == {len(each.splitlines()) for each in (unknown, good, bad)}


def test_configured_root_that_was_never_scanned_is_a_hint(integrity: Box, data: Path, tmp_path: Path) -> None:
    """A root that is only written down is not watched."""
    integrity.run("scan", data, expect=0)
    integrity.configure(f'[[root]]\npath = "{tmp_path}/other"\n')

    assert f"integrity scan {tmp_path}/other" in integrity.run("status", expect=0).stdout


def test_findings_lists_what_is_open_one_a_line(integrity: Box, archive: Path) -> None:
    """Resolved ones only on request."""
    lines = integrity.run("findings", expect=1).stdout.splitlines()
    integrity.run("accept", archive / "file0", "--reason", "edited", expect=0)
    integrity.run("accept", archive / "file1", "--reason", "gone", expect=0)

    assert 3 == len(lines)
    assert "changed" in lines[0]
    assert integrity.run("findings", expect=0).stdout == "no open findings\n"
    resolved = integrity.findings("findings", "--all", expect=0)
    assert {"accepted: edited", "accepted: gone"} == {finding["resolution"] for finding in resolved}
    assert [] == integrity.findings("findings", "--all", "--since", "2999-01-01", expect=0)
    assert 2 == len(integrity.findings("findings", "--all", "--since", "1h", expect=0))


def test_explain_has_the_digests_that_others_compute(integrity: Box, data: Path) -> None:
    """MD5, XXH3 and the CRC of S3 of the whole file, in hex, and how it was read."""
    integrity.run("scan", data, expect=0)
    (fresh,) = integrity.json("explain", data / "file0", expect=0)
    integrity.run("scrub", data, expect=0)
    (story,) = integrity.json("explain", data / "file0", expect=0)
    content = (data / "file0").read_bytes()
    digests = story["digests"]

    assert isinstance(digests, dict)
    assert hashlib.md5(content).hexdigest() == digests["md5"]
    assert xxhash.xxh3_128_hexdigest(content) == digests["xxh3_128"]
    assert expect_crc64nvme(content).hex() == digests["crc64nvme"]
    assert ("file", 1_048_576, 1) == (story["type"], story["block_size_bytes"], story["blocks"])
    assert fresh["verified_at"] is None
    assert story["verified_at"] is not None
    assert story["read_how"] in ("direct", "dropped", "cache_possible")


def test_explain_of_what_is_unknown_is_2(integrity: Box, data: Path) -> None:
    """Neither a new file, nor a folder, nor one outside all roots."""
    integrity.run("scan", data, expect=0)
    (data / "new").touch()
    for path in (data / "new", data, data.parent):
        integrity.run("explain", path, expect=2)


def test_accept_takes_the_present_content_and_keeps_the_old_one_in_history(integrity: Box, archive: Path) -> None:
    """Both baselines are known afterwards, and why."""
    integrity.run("accept", archive / "file0", "--reason", "edited by me", expect=0)
    (story,) = integrity.json("explain", archive / "file0", expect=0)
    digests, history = story["digests"], story["history"]

    assert isinstance(digests, dict)
    assert isinstance(history, list)
    assert hashlib.md5(b"changed content").hexdigest() == digests["md5"]
    assert hashlib.md5(b"content 0").hexdigest() == history[0]["digests"]["md5"]
    assert ("accepted", "edited by me") == (history[0]["because"], history[0]["note"])
    assert ["missing"] == [finding["kind"] for finding in integrity.findings("scrub", expect=1)]


def test_accept_of_a_file_that_is_gone_takes_it_out(integrity: Box, archive: Path) -> None:
    """Its finding is resolved, and no scan misses it any more."""
    (done,) = integrity.json("accept", archive / "file1", "--reason", "deleted by me", expect=0)

    assert ("accepted", "removal", 1) == (done["type"], done["outcome"], done["findings_resolved"])
    assert 5 == find_root(integrity)["files"]


def test_accept_needs_a_reason_and_a_known_file(integrity: Box, archive: Path) -> None:
    """Nothing is taken for right by a slip of the pen; if one file is wrong, none is accepted."""
    integrity.run("accept", archive / "file0", expect=2)
    integrity.run("accept", archive / "file0", "--reason", " ", expect=2)
    integrity.run("accept", archive, "--reason", "x", expect=2)
    integrity.run("accept", archive / "file0", archive / "none", "--reason", "x", expect=2)

    assert 2 == len(integrity.findings("findings", expect=1))


def test_accept_of_a_root_that_is_not_itself_is_refused(integrity: Box, archive: Path) -> None:
    """Under an unmounted disk everything would seem to be gone."""
    archive.rename(archive.parent / "aside")
    archive.mkdir()
    integrity.run("accept", archive / "file0", "--reason", "x", expect=3)
    integrity.run("accept", archive, "--deletions", "--reason", "x", "--yes", expect=3)

    assert 6 == find_root(integrity)["files"]


def test_mass_change_waits_until_changes_and_deletions_are_accepted(integrity: Box, data: Path) -> None:
    """Each is previewed with its count, asked for, and taken over by itself."""
    integrity.configure(CAUTIOUS.format())
    integrity.run("scan", data, expect=0)
    for number in range(2):
        (data / f"file{number}").write_text("changed content")
    for number in range(2, 4):
        (data / f"file{number}").unlink()
    assert ["mass_change"] == [finding["kind"] for finding in integrity.findings("scan", data, expect=1)]

    asked = integrity.run("accept", data, "--changes", "--reason", "moved house", expect=2)
    changes = integrity.run("accept", data, "--changes", "--reason", "moved house", "--yes", expect=0)
    integrity.run("findings", expect=1)
    (deletions,) = integrity.json("accept", data, "--deletions", "--reason", "cleaned up", "--yes", expect=0)

    assert "2 changed files, 0 deleted files" in asked.stdout
    assert "--yes" in asked.stderr
    assert "accepted 2 changed and 0 deleted" in changes.stdout
    assert (0, 2) == (deletions["changes"], deletions["deletions"])
    integrity.run("findings", expect=0)
    assert 4 == find_root(integrity)["files"]
    assert 4 == integrity.summary("scrub", data, expect=0)["files_verified"]
    integrity.run("accept", data, "--changes", "--reason", "again", "--yes", expect=2)


def test_accepting_deletions_leaves_files_that_came_back(integrity: Box, data: Path) -> None:
    """What is there again is not gone, whatever the last scan saw."""
    integrity.configure(CAUTIOUS.format())
    integrity.run("scan", data, expect=0)
    for number in range(3):
        (data / f"file{number}").rename(data.parent / f"file{number}")
    integrity.run("scan", data, expect=1)
    (data.parent / "file0").rename(data / "file0")
    integrity.run("accept", data, "--deletions", "--reason", "cleaned up", "--yes", expect=0)

    assert 4 == find_root(integrity)["files"]


def test_accepting_a_folder_of_an_archive_takes_what_its_findings_say(integrity: Box, archive: Path) -> None:
    """Changed and missing files of an archive have findings of their own; both forms end those."""
    (done,) = integrity.json("accept", archive, "--changes", "--deletions", "--reason", "x", "--yes", expect=0)

    assert (1, 1) == (done["changes"], done["deletions"])
    integrity.run("findings", expect=0)


def test_acknowledged_and_muted_findings_stay_open(integrity: Box, archive: Path) -> None:
    """Only the reminders stop; the exit code goes on telling the truth."""
    first, second = (str(finding["id"]) for finding in integrity.findings("findings", expect=1))
    (acknowledged,) = integrity.json("ack", first, expect=0)
    (muted,) = integrity.json("mute", second, "--until", "10d", expect=0)

    assert ("acknowledged", "muted") == (acknowledged["state"], muted["state"])
    assert muted["muted_until"] is not None
    assert 2 == len(integrity.findings("findings", expect=1))


def test_unknown_and_resolved_findings_cannot_be_acknowledged(integrity: Box, archive: Path) -> None:
    """If one number is wrong, none is acknowledged."""
    integrity.run("accept", archive / "file1", "--reason", "x", expect=0)
    (resolved,) = [each for each in integrity.findings("findings", "--all") if each["state"] == "resolved"]
    (finding,) = integrity.findings("findings", expect=1)
    integrity.run("ack", str(finding["id"]), "999", expect=2)
    integrity.run("mute", str(resolved["id"]), "--until", "1d", expect=2)

    assert "open" == integrity.findings("findings", expect=1)[0]["state"]


def test_paused_root_is_left_out_until_it_is_resumed(integrity: Box, data: Path) -> None:
    """Runs over all roots pass it by and say so."""
    integrity.run("scan", data, expect=0)
    integrity.run("root", "pause", data, expect=0)
    paused = integrity.summary("scrub", expect=0)
    integrity.run("root", "pause", data, expect=2)
    integrity.run("root", "resume", data, expect=0)
    integrity.run("root", "resume", data, expect=2)

    assert 0 == paused["files_known"]
    assert 6 == integrity.summary("scrub", expect=0)["files_verified"]


def test_released_root_is_believed_and_its_files_kept(integrity: Box, data: Path) -> None:
    """Lifting a suspension takes nothing out: what is gone then is told as such."""
    integrity.configure(CAUTIOUS.format())
    integrity.run("scan", data, expect=0)
    integrity.run("root", "release", data, expect=2)
    data.rename(data.parent / "aside")
    data.mkdir()
    integrity.run("scan", data, expect=3)
    integrity.run("root", "release", data, expect=0)

    assert ["mass_change"] == [finding["kind"] for finding in integrity.findings("scan", data, expect=1)]
    assert 6 == find_root(integrity)["files"]


def test_rebind_reads_everything_against_the_old_baselines(integrity: Box, data: Path, tmp_path: Path) -> None:
    """Damage done while copying to a new disk is found."""
    integrity.run("scan", data, expect=0)
    new = tmp_path / "new"
    new.mkdir()
    for path in data.iterdir():
        (new / path.name).write_bytes(path.read_bytes())
        os.utime(new / path.name, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    before = (new / "file3").stat()
    (new / "file3").write_text("cOntent 3")
    os.utime(new / "file3", ns=(before.st_atime_ns, before.st_mtime_ns))
    done = integrity.run("--json", "root", "rebind", data, new, expect=1)

    assert [str(new / "file3")] == [finding["path"] for finding in done.findings]
    assert (5, 1) == (done.summary["files_verified"], done.summary["files_damaged"])
    assert str(new) == find_root(integrity)["path"]


def test_rebind_refuses_what_cannot_be_the_root(integrity: Box, data: Path, tmp_path: Path) -> None:
    """A folder without any of its files, one that is not there, and one of another root."""
    integrity.run("scan", data, expect=0)
    other = tmp_path / "other"
    other.mkdir()
    (other / "x").touch()
    integrity.run("root", "rebind", data, other, expect=2)
    integrity.run("root", "rebind", data, tmp_path / "none", expect=2)
    integrity.run("root", "rebind", data / "file0", other, expect=2)
    integrity.run("scan", other, expect=0)
    integrity.run("root", "rebind", data, other, expect=2)

    assert {str(data), str(other)} == {root["path"] for root in integrity.json("root", "list")}


def test_forget_asks_then_takes_out(integrity: Box, archive: Path) -> None:
    """Without a terminal and --yes nothing is forgotten; then a file goes with its findings, and a root with all."""
    integrity.run("forget", archive / "file0", expect=2)
    assert 6 == find_root(integrity)["files"]
    integrity.run("forget", archive / "file0", "--yes", expect=0)
    assert ["missing"] == [finding["kind"] for finding in integrity.findings("findings", expect=1)]
    integrity.run("forget", archive / "none", "--yes", expect=2)
    done = integrity.run("forget", archive, "--yes", expect=0)

    assert "is a [[root]] of the config" in done.stderr
    assert [] == integrity.json("root", "list", expect=0)
    assert "changed content" == (archive / "file0").read_text()


def test_findings_about_a_folder_are_explained(tmp_path: Path, integrity: Box) -> None:
    """What `findings` names, `explain` knows: also a root; a name that is not recorded is 2."""
    root = plant(tmp_path / "root", 3)
    integrity.run("scan", root, expect=0)
    root.rename(root.with_name("away"))
    root.mkdir()
    integrity.run("scan", root, expect=3)

    done = integrity.run("explain", root, expect=1)

    assert "Folder is not being checked" in done.stdout
    assert "integrity root release" in done.stdout
    (finding,) = integrity.findings("findings", expect=3)
    assert str(root) == finding["path"]
    assert "there is no such file" in integrity.run("explain", root / "none", expect=2).stderr


def test_scrub_needs_a_catalog(tmp_path: Path, integrity: Box) -> None:
    """Without one, and without recording files first, there is nothing to verify: exit 4, and none is made."""
    root = plant(tmp_path / "root", 3)

    assert "start with: integrity scan FOLDER" in integrity.run("scrub", "--no-scan", root, expect=4).stderr
    assert not integrity.catalog.exists()
