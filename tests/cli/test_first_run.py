"""The first run of a new user, on a home folder as it is: the catalog lies in it, and one file can't be read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.cli import Box, Completed, complete, make_command, make_environment
from support.machine import need_root
from support.privileges import NOBODY, let_in


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Make a home folder with two files, one of which belongs to root alone."""
    need_root()
    home = tmp_path / "home"
    make_environment(home)
    (home / "good").write_bytes(b"content")
    (home / "secret").write_bytes(b"content")
    for path in [home, *home.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    os.chown(home / "secret", 0, 0)
    (home / "secret").chmod(0o600)
    let_in(tmp_path)
    return home


def run(home: Path, *words: str | Path) -> Completed:
    """Run a command as the owner of the home folder, whose catalog is at its usual place."""
    environment = make_environment(home)
    del environment["INTEGRITY_CATALOG"], environment["INTEGRITY_CONFIG"]
    done = subprocess.run(
        make_command(*words), env=environment, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True
    )
    return complete(done.returncode, done.stdout, done.stderr, is_json="--json" in words)


def test_scrub_alone_records_and_verifies(home: Path) -> None:
    """One command is enough; the file that can't be read is the only one that is not verified, and exits 3."""
    summary = run(home, "--json", "scrub", home).summary

    assert (home / ".local/state/integrity/catalog.db").exists()
    assert ("incomplete", 1) == (summary["outcome"], summary["files_unreadable"])
    assert summary["files_known"] == int(str(summary["files_verified"])) + 1 + int(str(summary["files_skipped"]))


def test_own_catalog_in_a_home_folder_is_no_alarm(home: Path) -> None:
    """
    It is left out, and listed with -v and for scripts, with what to do; nothing else is said of it.

    The finding about a file that was never read does not promise a record.
    """
    plain = run(home, "scan", home)
    said = " ".join(plain.stdout.split())
    assert "It is not recorded yet; the next scan tries again." in said
    assert "record is kept" not in said
    detailed = run(home, "scan", home, "-v")
    notes = run(home, "--json", "scan", home).of_type("note")

    assert "warning" not in plain.stdout + plain.stderr
    assert "keep a copy elsewhere, with: integrity catalog backup FOLDER" in detailed.stdout
    assert ["warning"] == [note["kind"] for note in notes if "catalog.db" in str(note["message"])]


def test_scan_and_scrub_go_on_after_an_unreadable_file(home: Path) -> None:
    """The README's block in sh: the scan's exit code does not keep the scrub from running."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    block = readme.partition("/usr/local/bin/ && ")[2].partition("```")[0]
    environment = make_environment(home) | {"FOLDER": str(home)}
    del environment["INTEGRITY_CATALOG"]
    nobody: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
    done = subprocess.run(["sh", "-c", block], env=environment, capture_output=True, text=True, **nobody)

    assert 3 == done.returncode
    assert "scan: " in done.stdout
    assert "scrub: not everything could be checked" in done.stdout


def test_scrub_without_path_makes_no_catalog(home: Path) -> None:
    """A nightly `scrub --due` whose catalog is gone must not begin anew in silence."""
    done = run(home, "scrub", "--due")
    other = run(home, "scrub", "--no-scan", home)

    assert (2, 4) == (done.code, other.code)
    assert not (home / ".local/state/integrity/catalog.db").exists()


@pytest.mark.files(10)
def test_scrub_of_configured_folders_records_and_verifies(integrity: Box, root: Path) -> None:
    """As with a folder that is named it is enough by itself; one by cron begins nothing anew."""
    integrity.configure(f'[[root]]\npath = "{root}"\n')

    assert "no catalog" in integrity.run("scrub", "--due", expect=4).stderr
    assert 10 == integrity.summary("scrub", expect=0)["files_verified"]


@pytest.mark.files(10)
def test_folders_one_in_the_other_make_no_catalog(integrity: Box, root: Path) -> None:
    """What is refused leaves nothing behind."""
    inner = next(path for path in root.iterdir() if path.is_dir())

    assert "name only one of the two" in integrity.run("scan", root, inner, expect=2).stderr
    assert not integrity.catalog.exists()
