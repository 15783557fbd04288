"""``forget --copy``: a backup copy that is gone for good leaves the catalog with all that was said of it."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from support.cli import Box
from support.comparing import back_up, compare, counts
from support.planted import plant, plant_path
from support.running import Running
from support.stored import query
from support.waiting import wait_until

COUNT = 6
pytestmark = pytest.mark.files(COUNT, size_bytes=3000)
TABLES = ("copy", "copy_file", "copy_reading")


def count_known(box: Box) -> list[int]:
    """Count the rows about copies."""
    return [count_rows(box, table) for table in TABLES]


def count_rows(box: Box, table: str) -> int:
    """Count the rows of one table."""
    ((count,),) = query(box, f"SELECT count(*) FROM {table}")
    return int(str(count))


def test_copy_that_is_gone_for_good_is_forgotten(integrity: Box, root: Path, copy: Path) -> None:
    """What is open about it ends; without it the state of the files is what counts. Named by a path, from anywhere."""
    plant_path(copy, 2).unlink()
    compare(integrity, root, "--with", copy, expect=1)
    shutil.rmtree(copy)
    lost = integrity.run("compare", "--with", copy, expect=3)
    assert f"integrity forget {root} --copy {copy}\n" in lost.stdout
    assert {"copy_missing", "copy_unreadable"} == {one["kind"] for one in integrity.findings("findings", expect=1)}

    refused = integrity.run("forget", "--copy", copy, expect=2)
    assert "--yes" in refused.stderr
    assert 2 == len(integrity.findings("findings", expect=1))
    done = integrity.run("forget", "--copy", "./copy", "--yes", cwd=copy.parent, expect=0)

    assert f"{copy}, a copy of {root}: what it said of {COUNT} files, 2 open findings\n" in done.stdout
    assert "no open findings\n" == integrity.run("findings", expect=0).stdout
    ended = {(one["kind"], one["resolution"]) for one in integrity.findings("findings", "--all", expect=0)}
    assert {(kind, "the copy was forgotten") for kind in ("copy_missing", "copy_unreadable")} == ended
    assert [0, 0, 0] == count_known(integrity)
    assert "all is well" in integrity.run("catalog", "check", expect=0).stdout


def test_only_the_named_copy_is_forgotten(integrity: Box, root: Path, copy: Path, tmp_path: Path) -> None:
    """Another copy of the same files keeps what it said; what is missing there is still missing."""
    other = back_up(root, tmp_path / "other")
    for one in (copy, other):
        plant_path(one, 2).unlink()
        compare(integrity, root, "--with", one, expect=1)
    integrity.run("forget", "--copy", copy, "--yes", expect=0)

    assert [(str(other),)] == query(integrity, "SELECT name FROM copy")
    assert [str(other)] == [one["copy"] for one in integrity.findings("findings", expect=1)]
    assert {"verified": COUNT - 1, "missing": 1} == counts(compare(integrity, root, "--with", other, expect=1))


def test_copy_of_two_roots_is_forgotten_of_one(integrity: Box, root: Path, copy: Path, tmp_path: Path) -> None:
    """With PATH only what it is there; the URL of a copy names it as its path does."""
    second = plant(tmp_path / "second", 3, size_bytes=100)
    shutil.copytree(second, copy, dirs_exist_ok=True)
    for one in (root, second):
        integrity.run("compare", one, "--with", copy, expect=None)
    assert 2 == count_rows(integrity, "copy")
    integrity.run("forget", second, "--copy", copy, "--yes", expect=0)

    assert [(str(root).encode(),)] == query(integrity, "SELECT root.path FROM copy JOIN root ON root.id = copy.root_id")
    refused = integrity.run("forget", second, "--copy", copy, "--yes", expect=2)
    assert f"{copy}: nothing is recorded of such a copy of {second}; copies that are known: {copy}" in refused.stderr


def test_copy_of_two_folders_is_forgotten_of_one(integrity: Box, tmp_path: Path) -> None:
    """What is open about the other stays, and what is said of the copy as a whole until it is forgotten of both."""
    root, copy = tmp_path / "root", tmp_path / "copy"
    copy.mkdir()
    for folder in ("a", "b"):
        (root / folder).mkdir(parents=True)
        for number in range(3):
            (root / folder / f"{folder}{number}").write_text(f"{folder} {number}")
        shutil.copytree(root / folder, copy, dirs_exist_ok=True)
        (copy / f"{folder}1").unlink()
    integrity.run("scan", root, expect=0)
    for folder in ("a", "b"):
        integrity.run("compare", root / folder, "--with", copy, expect=1)
    shutil.rmtree(copy)
    integrity.run("compare", root / "b", "--with", copy, expect=3)
    assert [str(root / "a/a1"), str(root / "b/b1"), str(root)] == paths_of(integrity)

    integrity.run("forget", root / "a", "--copy", copy, "--yes", expect=0)
    assert [str(root / "b/b1"), str(root)] == paths_of(integrity)
    integrity.run("forget", "--copy", copy, "--yes", expect=0)
    assert [] == paths_of(integrity)


def paths_of(box: Box) -> list[object]:
    """List what the open findings are about."""
    return [one["path"] for one in box.findings("findings", expect=None)]


def test_copy_of_the_configuration_begins_anew(integrity: Box, root: Path, copy: Path) -> None:
    """It is said that it will come back, for the configuration wants it."""
    integrity.configure(f'[[copy]]\nname = "nightly"\nof = "{root}"\nurl = "{copy}"\n')
    integrity.run("scan", root, expect=0)
    integrity.run("compare", "--with", "nightly", expect=0)
    done = integrity.run("forget", "--copy", "nightly", "--yes", expect=0)

    assert "nightly is a [[copy]] of the config: the next comparison begins anew with it" in done.stderr
    assert [0, 0, 0] == count_known(integrity)
    assert {"verified": COUNT} == counts(integrity.run("--json", "compare", "--with", "nightly", expect=0))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--yes"], "name what to forget"),
        (["--copy", "weekly", "--yes"], "weekly: nothing is recorded of such a copy; copies that are known: none"),
        (["--copy", "ftp://host/path", "--yes"], "a copy at ftp:// can't be read"),
    ],
)
def test_what_is_refused(integrity: Box, root: Path, arguments: list[str], words: str) -> None:
    """Exit 2, in words."""
    integrity.run("scan", root, expect=0)
    assert words in integrity.run("forget", *arguments, expect=2).stderr


def test_copy_that_is_being_compared_stays(integrity: Box, root: Path, copy: Path) -> None:
    """The comparison would write down what a copy said that is not known any more: exit 4, and who it is."""
    integrity.run("scan", root, expect=0)
    with Running(integrity, "compare", root, "--with", copy, "--rate", "1K") as running:
        wait_until(lambda: count_rows(integrity, "copy") == 1, "a comparison", timeout_s=30)
        refused = integrity.run("forget", "--copy", copy, "--yes", expect=4)
        running.signal(signal.SIGTERM)
        running.finish()

    assert "compare" in refused.stderr
    assert 1 == count_rows(integrity, "copy")
