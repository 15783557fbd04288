"""Finding the findings that matter, and accepting files by the number of a finding."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.cli import Box

ARCHIVE = """
[[root]]
path = "{path}"
policy = "archive"
"""


@pytest.fixture
def archive(integrity: Box, tmp_path: Path) -> Path:
    """An archive in which two files were changed and one was removed: findings 1 to 3."""
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    for name in ("a", "b", "sub/c", "sub/d"):
        (data / name).write_text(name)
    integrity.configure(ARCHIVE.format(path=data))
    integrity.run("scan", expect=0)
    (data / "a").write_text("changed content")
    (data / "sub/c").write_text("changed content")
    (data / "b").unlink()
    integrity.run("scan", expect=1)
    return data


def list_paths(integrity: Box, *words: str | Path, expect: int = 1) -> list[str]:
    """Return the paths of the listed findings, in the order of the list."""
    done = integrity.run("findings", "--json", *words, expect=expect)
    return [str(one["path"]) for one in done.findings]


def test_kinds_are_chosen(archive: Path, integrity: Box) -> None:
    """One, or several; for people and for programs alike."""
    assert [f"{archive}/b"] == list_paths(integrity, "--kind", "missing")
    assert 3 == len(list_paths(integrity, "--kind", "missing", "--kind", "changed"))
    assert "1 finding open" in integrity.run("findings", "--kind", "missing", expect=1).stdout


def test_unknown_kind_lists_the_known_ones(archive: Path, integrity: Box) -> None:
    """Who guesses wrong reads what can be typed."""
    done = integrity.run("findings", "--kind", "bitrot", expect=2)

    assert "'rot'" in done.stderr
    assert "'copy_differs'" in done.stderr


def test_findings_of_a_folder_or_file(archive: Path, integrity: Box) -> None:
    """The path is that of a file or a folder, relative or not; a folder above the root counts, too."""
    assert [f"{archive}/sub/c"] == list_paths(integrity, "--path", archive / "sub")
    assert [f"{archive}/a"] == list_paths(integrity, "--path", archive / "a")
    assert 3 == len(list_paths(integrity, "--path", archive.parent))
    done = integrity.run("findings", "--path", archive / "sub/d", expect=0)

    assert "no such finding is open\n" == done.stdout


def test_folder_that_is_not_watched_is_not_in_order(archive: Path, integrity: Box) -> None:
    """No findings there would not mean that all is well."""
    done = integrity.run("findings", "--path", "/usr", expect=2)

    assert "/usr: is not watched, so there are no findings about it" in done.stderr


def test_findings_are_sorted(archive: Path, integrity: Box) -> None:
    """By path, or by gravity with the worst at the end, where it stays on the screen."""
    assert [f"{archive}/{name}" for name in ("a", "b", "sub/c")] == list_paths(integrity, "--sort", "path")
    assert f"{archive}/b" == list_paths(integrity, "--sort", "gravity")[0]


@pytest.mark.parametrize(
    ("since", "number"), [("yesterday", 3), ("today", 3), ("3d", 3), ("2020-01-01", 3), ("2099-01-01", 0)]
)
def test_since_takes_days_durations_and_dates(since: str, number: int, archive: Path, integrity: Box) -> None:
    """Local time counts; a future date leaves nothing."""
    if time.localtime().tm_hour == 0 and time.localtime().tm_min == 0 and since == "today":
        pytest.skip("the day has just begun")

    assert number == len(list_paths(integrity, "--since", since, expect=1 if number else 0))


def test_wrong_since_says_what_can_be_typed(archive: Path, integrity: Box) -> None:
    """All forms are named."""
    done = integrity.run("findings", "--since", "last week", expect=2)

    assert "a date such as 2026-11-30, today, yesterday, or a duration such as 2w" in done.stderr


def find_number(integrity: Box, kind: str) -> str:
    """Return the number of the first finding of a kind."""
    return str(integrity.run("findings", "--json", "--kind", kind, expect=1).findings[0]["id"])


def test_findings_are_accepted_by_number(archive: Path, integrity: Box) -> None:
    """Several at once, changed and missing ones; each says which file it was."""
    numbers = [str(one["id"]) for one in integrity.run("findings", "--json", expect=1).findings]
    done = integrity.run("accept", *numbers, "--reason", "meant", expect=0)

    assert f"{archive}/a: accepted" in done.stdout
    assert f"{archive}/b: accepted: it is gone" in done.stdout
    integrity.run("findings", expect=0)


def test_closed_finding_is_not_accepted(archive: Path, integrity: Box) -> None:
    """The message has how it was closed; no other file is accepted either."""
    number, other = find_number(integrity, "missing"), find_number(integrity, "changed")
    integrity.run("accept", number, "--reason", "meant", expect=0)
    done = integrity.run("accept", other, number, "--reason", "again", expect=2)

    assert f"finding {number}: is closed already (accepted: meant); there is nothing to accept" in done.stderr
    assert 2 == len(list_paths(integrity))


@pytest.mark.parametrize("number", ["0", "99", "99999999999999999999999"])
def test_finding_that_is_not_there(number: str, archive: Path, integrity: Box) -> None:
    """A slip of the pen accepts nothing, and is no bug."""
    done = integrity.run("accept", number, "--reason", "meant", expect=2)

    assert "findings --all" in done.stderr


def test_file_that_is_named_like_a_number(archive: Path, integrity: Box) -> None:
    """Where the word may mean both, nothing is done; each has a form of its own."""
    (archive / "1").write_text("1")
    integrity.run("scan", expect=1)
    done = integrity.run("accept", "1", "--reason", "meant", cwd=archive, expect=2)
    integrity.run("accept", "./1", "--reason", "meant", cwd=archive, expect=0)
    by_option = integrity.run("accept", "--finding", "1", "--reason", "meant", cwd=archive, expect=0)

    assert "for the file type ./1, for the finding --finding 1" in done.stderr
    assert "1 finding resolved" in by_option.stdout


def test_finding_that_can_not_be_accepted_says_what_to_do(integrity: Box, tmp_path: Path) -> None:
    """A root that is not itself is released or rebound; accepting it would settle nothing."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "a").touch()
    integrity.run("scan", data, expect=0)
    data.rename(tmp_path / "elsewhere")
    data.mkdir()
    integrity.run("scan", expect=3)
    done = integrity.run("accept", find_root_finding(integrity), "--reason", "meant", expect=2)

    assert "can't be accepted" in done.stderr
    assert f"integrity root release {data}" in done.stderr


def find_root_finding(integrity: Box) -> str:
    """Return the number of the finding about a suspended root."""
    return str(integrity.run("findings", "--json", "--kind", "root_suspended", expect=3).findings[0]["id"])


def test_file_is_explained_by_the_number_of_its_finding(archive: Path, integrity: Box) -> None:
    """As it is accepted; the time of the last reading that found it damaged stands beside that of the last good one."""
    number = integrity.findings("findings", expect=1)[0]["id"]

    said = integrity.run("explain", str(number), expect=1).stdout

    assert f"{archive}/" in said.splitlines()[0]
    assert "  state       NOT INTACT, last found so " in said
    assert "there is none" in integrity.run("explain", "4711", expect=2).stderr
    assert "there is no such file" in integrity.run("explain", archive / "typo", expect=2).stderr


def test_explaining_a_folder_leads_to_its_findings(archive: Path, integrity: Box) -> None:
    """Neither a watched folder nor one in it is "not recorded"."""
    for folder in (archive, archive / "sub"):
        done = integrity.run("explain", folder, expect=2)

        assert f"{folder}: is a folder" in done.stderr
        assert f"integrity findings --path {folder}\n" in done.stderr


def test_accept_without_anything_says_what_to_name(archive: Path, integrity: Box) -> None:
    """Usage, with an example in help."""
    done = integrity.run("accept", "--reason", "meant", expect=2)

    assert "name a file, or the number of a finding" in done.stderr
