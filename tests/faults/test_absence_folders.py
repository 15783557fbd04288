"""Folders that can't be listed, names that are left out since: none of it is a deletion."""

from __future__ import annotations

import os

import pytest

from support.cli import Box
from support.planted import plant
from support.privileges import as_nobody, run_as_nobody
from support.results import messages, tallies
from support.shapes import put
from support.stored import count_rows


@pytest.mark.root
def test_folder_without_permission(nobodys_box: Box) -> None:
    """A folder that a user may not list keeps its records; given back, all is as before."""
    with as_nobody():
        root = plant(nobodys_box.home.parent / "root", 28)
    assert 0 == run_as_nobody(nobodys_box, "scan", root).code
    os.chmod(root / "d3", 0)
    result = run_as_nobody(nobodys_box, "--json", "scan", root)
    assert 3 == result.code
    assert {"unreadable": 4, "not_due": 24} == tallies(result)
    assert "Permission denied" in messages(result)
    assert 28 == count_rows(nobodys_box)
    os.chmod(root / "d3", 0o755)
    assert 0 == run_as_nobody(nobodys_box, "scan", root).code
    assert 0 == run_as_nobody(nobodys_box, "findings").code


@pytest.mark.root
def test_names_in_a_folder_that_may_be_listed_but_not_entered(nobodys_box: Box) -> None:
    """Each name counts as unreadable, new ones and recorded ones, and what is to be done is about permissions."""
    with as_nobody():
        root = plant(nobodys_box.home.parent / "root", 7)
    (root / "new").mkdir()
    put(root / "new" / "a", b"a")
    put(root / "new" / "b", b"b")
    os.chmod(root / "new", 0o644)
    result = run_as_nobody(nobodys_box, "--json", "scan", root)
    assert 3 == result.code
    assert {"new": 7, "unreadable": 2} == tallies(result)
    assert all("looked at: Permission denied" in str(one["message"]) for one in result.findings)
    steps = str([one["next_steps"] for one in result.findings])
    assert "give the user that integrity runs as read access" in steps
    assert not any(word in steps for word in ("smartctl", "repair"))
    os.chmod(root / "new", 0o755)
    assert {"new": 2, "not_due": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scan", root))
    os.chmod(root / "new", 0o644)
    assert {"unreadable": 2, "not_due": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scan", root))
    assert {"unreadable": 2, "verified": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scrub", root))


@pytest.mark.root
def test_new_file_that_cannot_be_read_and_then_can(nobodys_box: Box) -> None:
    """The finding on a file that was never recorded is over when it is recorded, and when it is gone."""
    with as_nobody():
        root = plant(nobodys_box.home.parent / "root", 7)
    put(root / "secret.txt")
    put(root / "other.txt")
    os.chmod(root / "secret.txt", 0o600)
    os.chmod(root / "other.txt", 0o600)
    result = run_as_nobody(nobodys_box, "--json", "scan", root)
    assert 3 == result.code
    assert {"new": 7, "unreadable": 2} == tallies(result)
    os.chmod(root / "secret.txt", 0o644)
    (root / "other.txt").unlink()
    assert {"new": 1, "not_due": 7} == tallies(run_as_nobody(nobodys_box, "--json", "scan", root))
    assert 0 == run_as_nobody(nobodys_box, "findings").code
    assert 0 == run_as_nobody(nobodys_box, "scrub", root).code
