"""The gate before backups against simulated ransomware, and on ordinary days."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from support.cli import Box, JsonObject
from support.documents import drop_notes, encrypt, make_content, make_documents
from support.machine import need_programs
from support.planted import age
from support.stored import rewrite

COUNT = 1000


@pytest.fixture
def home(tmp_path: Path, integrity: Box) -> Path:
    """A folder of 1,000 documents that the gate let through."""
    folder = tmp_path / "home"
    age(*make_documents(folder, COUNT))
    integrity.run("-q", "gate", folder, expect=0)
    return folder


def documents(folder: Path) -> list[Path]:
    """List its files."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def ask(integrity: Box, folder: Path, *, expect: int) -> JsonObject:
    """Ask the gate and return its verdict."""
    [verdict] = integrity.run("--json", "gate", folder, expect=expect).of_type("gate")
    return verdict


def signs(verdict: JsonObject) -> set[str]:
    """Name the signs in a verdict."""
    found = verdict["signs"]
    assert isinstance(found, list)
    return {one["kind"] for one in found}


@pytest.mark.parametrize("keeps_times", [False, True], ids=["", "times put back"])
@pytest.mark.parametrize("suffix", ["", ".locked"], ids=["in place", "renamed"])
@pytest.mark.parametrize("count", [600, 60])
def test_encrypted_files_close_the_gate(home: Path, integrity: Box, count: int, suffix: str, keeps_times: bool) -> None:
    """600 of 1,000, and 60 that no limit would stop; with their old times and without; under new names or the old."""
    encrypt(random.Random(5).sample(documents(home), count), suffix=suffix, keeps_times=keeps_times)

    verdict = ask(integrity, home, expect=1)

    assert ("closed", True) == (verdict["verdict"], verdict["looks_like_ransomware"])
    assert {"types_lost", "scrambled"} <= signs(verdict)
    assert ("renamed" in signs(verdict)) == (bool(suffix) and not keeps_times)
    kinds = {one["kind"] for one in integrity.findings("findings", expect=1)}
    assert "suspicious_change" in kinds
    assert (not keeps_times) == ("mass_change" in kinds)
    assert (keeps_times and not suffix) == ("silent_rewrite" in kinds)
    ask(integrity, home, expect=1)


def test_photos_alone_are_enough(tmp_path: Path, integrity: Box) -> None:
    """A folder of one type has no mixture of types."""
    photos = make_documents(tmp_path / "photos", 2000, types=["jpg"])
    integrity.run("-q", "gate", tmp_path / "photos", expect=0)
    encrypt(photos[:40])

    assert {"types_lost", "scrambled"} == signs(ask(integrity, tmp_path / "photos", expect=1))


def test_notes_and_new_names_are_enough(home: Path, integrity: Box) -> None:
    """Even if what is inside can't be told: names are all that is left of files that hold anything."""
    victims = [path.rename(path.with_suffix(".bin")) for path in documents(home)[::4]]
    integrity.run("-q", "gate", home, expect=0)
    encrypt(victims, suffix=".crypt")
    drop_notes(victims)

    verdict = ask(integrity, home, expect=1)

    assert {"renamed", "notes"} == signs(verdict)
    assert verdict["looks_like_ransomware"]


@pytest.mark.parametrize("has_notes", [False, True], ids=["", "notes"])
def test_files_replaced_under_other_names_close_the_gate(home: Path, integrity: Box, has_notes: bool) -> None:
    """Nothing of a name is left, and all have one new suffix; an import on the same day does not hide it."""
    victims = documents(home)[::2] + documents(home)[1:200:2]
    integrity.configure("[defaults]\nmass_change = { files = 5000, percent = 20 }\n")
    make_documents(home / "import", 1000, types=["jpg"], seed=2)
    for path in victims:
        path.with_name(f"{os.urandom(8).hex()}.locky").write_bytes(os.urandom(path.stat().st_size))
        path.unlink()
    if has_notes:
        drop_notes(victims)

    verdict = ask(integrity, home, expect=1)

    assert {"replaced", "scrambled"} | ({"notes"} if has_notes else set()) == signs(verdict)
    assert verdict["looks_like_ransomware"]


def test_files_packed_into_archives_pass(home: Path, integrity: Box) -> None:
    """An encrypting archive tool makes a few files of all."""
    for path in documents(home):
        path.unlink()
    integrity.configure("[defaults]\nmass_change = { files = 5000, percent = 20 }\n")
    for number in range(30):
        (home / f"documents.pack.{number:03}").write_bytes(os.urandom(200_000))

    assert set() == signs(ask(integrity, home, expect=0))


@pytest.mark.parametrize("name", ["home.tar.gz.{:02}", "b-{}.tar.gz.enc", "{}.jpg.bin", "{}.jpg.{:03}"])
@pytest.mark.parametrize("is_first", [True, False], ids=["first gate", ""])
def test_new_encrypted_files_pass(home: Path, integrity: Box, name: str, is_first: bool) -> None:
    """Pieces of an archive, encrypted backups and an encrypted remote lost no type, for they never had it."""
    folder = home.with_name("backups") if is_first else home / "backups"
    folder.mkdir()
    for number in range(12):
        (folder / name.format(number, number)).write_bytes(os.urandom(200_000))

    assert set() == signs(ask(integrity, folder if is_first else home, expect=0))


def test_encrypted_backups_that_are_made_anew_pass(home: Path, integrity: Box) -> None:
    """Written again each night under their names, or chowned."""
    pieces = [home / f"home.tar.gz.{number:02}" for number in range(12)]
    for _ in range(2):
        for path in pieces:
            path.write_bytes(os.urandom(200_000))
        verdict = ask(integrity, home, expect=0)

    assert 12 == verdict["files_rewritten"]
    assert "types_lost" not in signs(verdict)


def test_archive_cut_into_pieces_passes(home: Path, integrity: Box) -> None:
    """One file went, and many came that begin with its name."""
    (home / "home.tar.gz").write_bytes(gzip.compress(b"") + os.urandom(200_000))
    integrity.run("-q", "gate", home, expect=0)
    (home / "home.tar.gz").unlink()
    for number in range(12):
        (home / f"home.tar.gz.{number:02}").write_bytes(os.urandom(100_000))

    assert set() == signs(ask(integrity, home, expect=0))


def test_new_photos_do_not_hide_it(home: Path, integrity: Box) -> None:
    """An import of a thousand photos on the day on which 40 documents were encrypted."""
    make_documents(home / "import", 1000, types=["jpg"], seed=2)
    encrypt(documents(home)[:40], suffix=".xyz")

    assert {"types_lost", "scrambled", "renamed"} == signs(ask(integrity, home, expect=1))


def test_what_happened_between_two_gates_is_seen_after_other_scans(home: Path, integrity: Box) -> None:
    """A service that scans all day has long taken the changes over."""
    for begin in (0, 30, 60):
        encrypt(documents(home)[begin : begin + 30])
        integrity.run("scan", home, expect=1)

    assert 90 == ask(integrity, home, expect=1)["files_rewritten"]


def test_restored_files_open_the_gate(tmp_path: Path, home: Path, integrity: Box) -> None:
    """Nobody has to say anything when all is as it was."""
    shutil.copytree(home, tmp_path / "backup")
    encrypt(documents(home)[:200], suffix=".locked")
    drop_notes(documents(home)[:200])
    ask(integrity, home, expect=1)
    shutil.rmtree(home / "d0")
    for path in documents(home):
        if not (tmp_path / "backup" / path.relative_to(home)).exists():
            path.unlink()
    shutil.copytree(tmp_path / "backup", home, dirs_exist_ok=True)

    verdict = ask(integrity, home, expect=0)

    assert (0, 0) == (verdict["files_rewritten"], verdict["files_removed"])
    found = {one["kind"]: one["state"] for one in integrity.findings("findings", "--all", expect=0)}
    assert {"suspicious_change": "resolved", "mass_change": "resolved"} == found


def test_mass_change_over_days_closes_the_gate(home: Path, integrity: Box) -> None:
    """No day is beyond the limits that scans look at, all days since the last backup together are."""
    integrity.configure("[defaults]\nmass_change = { files = 200, percent = 20 }\n")
    for number, path in enumerate(documents(home)[:201]):
        path.write_bytes(make_content(path.suffix[1:], number, random.Random(number)) + b"edited")
        if number == 150:
            integrity.run("scan", home, expect=0)
            rewrite(integrity, "UPDATE history SET replaced_at = replaced_at - 100000")

    verdict = ask(integrity, home, expect=1)

    assert (201, False) == (verdict["files_rewritten"], verdict["looks_like_ransomware"])
    integrity.run("gate", home, "--release", "--reason", "a new template", expect=0)
    assert 0 == ask(integrity, home, expect=0)["files_rewritten"]


def test_photo_import_passes(home: Path, integrity: Box) -> None:
    """5,000 new files are no reason to stop."""
    make_documents(home / "import", 5000, types=["jpg"], seed=3)

    verdict = ask(integrity, home, expect=0)

    assert (5000, 0, set()) == (verdict["files_new"], verdict["files_rewritten"], signs(verdict))


def test_day_of_work_passes(home: Path, integrity: Box) -> None:
    """Edited, renamed, deleted and new documents, as many as the limits allow."""
    files = documents(home)
    for number, path in enumerate(files[:150]):
        path.write_bytes(make_content(path.suffix[1:], number, random.Random(number)))
    for path in files[150:160]:
        path.unlink()
    for path in files[160:200]:
        path.rename(path.with_name(f"new {path.name}"))
    make_documents(home / "new", 50, seed=4)

    verdict = ask(integrity, home, expect=0)

    assert (150, 10, 50) == (verdict["files_rewritten"], verdict["files_removed"], verdict["files_new"])
    assert set() == signs(verdict)


def test_touched_files_pass(home: Path, integrity: Box) -> None:
    """A chown or chmod of everything writes nothing."""
    for path in documents(home):
        path.chmod(0o640)

    assert set() == signs(ask(integrity, home, expect=0))


def test_rotated_logs_pass(home: Path, integrity: Box) -> None:
    """Fifty logs are compressed and begin anew: one sign at most, and one is not enough."""
    logs = home / "log"
    logs.mkdir()
    for number in range(50):
        (logs / f"{number}.log").write_bytes(b"line\n" * 900)
    integrity.run("-q", "gate", home, expect=0)
    for path in sorted(logs.iterdir()):
        (logs / f"{path.name}.1.gz").write_bytes(gzip.compress(path.read_bytes() + os.urandom(4000)))
        path.unlink()

    assert signs(ask(integrity, home, expect=0)) <= {"renamed"}


def test_collected_repository_passes(home: Path, integrity: Box) -> None:
    """What git does to its objects is churn of files without types; its limits are those of all."""
    need_programs("git")
    work = home / "work"
    make_documents(work, 60)
    git = ("git", "-C", str(work), "-c", "user.name=x", "-c", "user.email=x@example.org")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "x")):
        subprocess.run([*git, *command], check=True, capture_output=True)
    integrity.run("-q", "gate", home, expect=0)
    subprocess.run([*git, "gc", "-q", "--prune=now"], check=True, capture_output=True)

    verdict = ask(integrity, home, expect=0)

    assert set() == signs(verdict)
    assert isinstance(verdict["files_removed"], int)
    assert verdict["files_removed"] > 50


def test_upgraded_packages_pass(home: Path, integrity: Box) -> None:
    """An upgrade rewrites many files and brings the same new one to many folders."""
    modules = home / "node_modules"
    for number in range(150):
        (modules / f"p{number}").mkdir(parents=True)
        for name in ("index.js", "package.json"):
            (modules / f"p{number}" / name).write_bytes(b'{"version": "1.0.%d"}\n' % number * 20)
    integrity.run("-q", "gate", home, expect=0)
    for folder in modules.iterdir():
        (folder / "package.json").write_bytes(b'{"version": "2.0.0", "name": "%s"}\n' % os.fsencode(folder.name) * 20)
        (folder / "LICENSE").write_bytes(b"Permission is hereby granted, free of charge, to any person\n" * 9)

    assert {"notes"} == signs(ask(integrity, home, expect=0))


def test_own_encryption_of_an_archive_passes(home: Path, integrity: Box) -> None:
    """Who encrypts files with gpg says so by their names."""
    for path in documents(home)[:150]:
        path.with_name(f"{path.name}.gpg").write_bytes(os.urandom(path.stat().st_size))
        path.unlink()

    assert {"renamed"} == signs(ask(integrity, home, expect=0))
