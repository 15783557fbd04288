"""Files and folders that have other names on some members of a set: one finding says so, and nothing is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from integrity.hub.database import HubDatabase
from integrity.hub.findings import HubFinding
from integrity.hub.kinds import HubFindingKind
from integrity.hub.reported import read_folders
from integrity.hub.trees import store_folders
from integrity.hub.votes import MOST_RENAMED
from integrity.reporting.digest_tree import ReportedFile
from support.hub_reports import Tree
from support.hub_rows import NOW, HubRows, reported

SUMMER = [reported(b"%03d.jpg" % number, b"photo %d" % number) for number in range(200)]
FOLDERS = {b"": [reported(b"list.txt", b"a list")], b"summer": SUMMER, b"winter": [reported(b"1.jpg", b"snow")]}
Folders = Mapping[bytes, Iterable[ReportedFile]]


class RenamingBoxes:
    """Boxes of one set that hold the same files, and rename some."""

    def __init__(self, database: HubDatabase) -> None:
        self._database = database
        self._numbers: dict[str, int] = {}

    def add(self, *names: str, folders: Folders = FOLDERS) -> None:
        """Add boxes that report the same files."""
        with self._database.transaction() as c:
            rows = HubRows(c)
            if self._numbers:
                rows.__dict__["set_id"] = self._set_id
            for name in names:
                rows.add_member(name, {})
            self._set_id = rows.set_id
            self._numbers |= rows.boxes
        for name in names:
            self.report(name, folders)

    def report(self, name: str, folders: Folders) -> None:
        """Let a box report all that it has now."""
        assert store_folders(self._database, self._numbers[name], 1, read_folders(Tree(folders).parts()), NOW)

    def vote(self) -> list[HubFinding]:
        """Return what a vote finds."""
        with self._database.transaction() as c:
            rows = HubRows(c)
            rows.__dict__["set_id"] = self._set_id
            return rows.vote()


@pytest.fixture
def boxes(hub_database: HubDatabase) -> RenamingBoxes:
    """Return a set without boxes."""
    return RenamingBoxes(hub_database)


def renamed(folder: bytes, files: Iterable[ReportedFile] = SUMMER) -> Folders:
    """Return the folders with another name for summer."""
    return {path: some for path, some in FOLDERS.items() if path != b"summer"} | {folder: files}


def tell(found: list[HubFinding]) -> list[tuple[HubFindingKind, str | None, bytes, int]]:
    """Return what findings are about."""
    return [(one.kind, one.box_name, one.path, one.subjects) for one in found]


def test_renamed_file_and_folder_are_two_findings(boxes: RenamingBoxes) -> None:
    """Not 201 files that are missing on three boxes; they end when the others follow."""
    boxes.add("a", "b", "c")
    moved = {**renamed(b"trips/holiday"), b"": [reported(b"notes.txt", b"a list")]}
    boxes.report("b", moved)
    found = boxes.vote()
    kind = HubFindingKind.REPLICA_RENAMED

    assert [(kind, "b", b"notes.txt", 1), (kind, "b", b"trips/holiday", 200)] == tell(found)
    assert "Renamed on b: list.txt is now notes.txt" == found[0].headline
    assert "Renamed on b: summer is now trips/holiday (200 files)" == found[1].headline
    assert "a and c have the old names, with the same content: nothing is missing." in found[1].explanation

    boxes.report("a", moved)
    boxes.report("c", moved)

    assert [] == boxes.vote()


def test_rename_is_told_of_those_who_renamed_though_they_are_most(boxes: RenamingBoxes) -> None:
    """The one box that did not follow is not accused."""
    boxes.add("a", "b", "c")
    boxes.report("b", renamed(b"holiday"))
    boxes.report("c", renamed(b"holiday"))
    (found,) = boxes.vote()

    assert "Renamed on b and c: summer is now holiday (200 files)" == found.headline
    assert "a has the old names" in found.explanation


def test_boxes_that_never_agreed_have_different_names(boxes: RenamingBoxes) -> None:
    """Nothing tells which name is older."""
    boxes.add("a")
    boxes.add("b", folders=renamed(b"holiday"))
    (found,) = boxes.vote()

    assert (HubFindingKind.REPLICA_RENAMED, None, b"holiday", 200) == tell([found])[0]
    assert "Different names on a and b: summer and holiday (200 files)" == found.headline
    assert "a has summer, b has holiday, with the same content: nothing is missing." in found.explanation


def test_folder_that_was_renamed_and_changed_is_told_apart(boxes: RenamingBoxes) -> None:
    """Files that have one name only are missing where they are not, and nothing else is."""
    boxes.add("a", "b")
    boxes.report("b", renamed(b"holiday", [*SUMMER[1:], reported(b"new.jpg", b"new")]))
    missing, renames = HubFindingKind.REPLICA_MISSING, HubFindingKind.REPLICA_RENAMED

    assert [
        (missing, "a", b"holiday/new.jpg", 1),
        (missing, "b", b"summer/000.jpg", 1),
        (renames, "b", b"holiday", 199),
    ] == tell(boxes.vote())


def test_each_name_of_equal_files_is_used_once(boxes: RenamingBoxes) -> None:
    """Of three equal files that one box has and two that another has, one is missing; a copy is no rename."""
    same = [reported(b"%d" % number, b"same") for number in range(3)]
    boxes.add("a", folders={b"x": same, b"kept": [reported(b"kept", b"kept")]})
    kept = [reported(b"copy", b"kept"), reported(b"kept", b"kept")]
    boxes.add("b", folders={b"y": same[:2], b"kept": kept})

    assert [
        (HubFindingKind.REPLICA_MISSING, "a", b"kept/copy", 1),
        (HubFindingKind.REPLICA_MISSING, "b", b"x/2", 1),
        (HubFindingKind.REPLICA_RENAMED, None, b"y", 2),
    ] == tell(boxes.vote())


def test_empty_files_are_equal_only_by_name(boxes: RenamingBoxes) -> None:
    """Two of them with other names have nothing to do with each other; in a renamed folder they go with the others."""
    boxes.add("a", folders={b"": [reported(b"one", b"")], b"x": [reported(b"empty", b""), reported(b"full")]})
    boxes.add("b", folders={b"": [reported(b"two", b"")], b"y": [reported(b"empty", b""), reported(b"full")]})

    assert [
        (HubFindingKind.REPLICA_MISSING, "a", b"two", 1),
        (HubFindingKind.REPLICA_MISSING, "b", b"one", 1),
        (HubFindingKind.REPLICA_RENAMED, None, b"y", 2),
    ] == tell(boxes.vote())


def test_many_renamed_files_are_one_finding(boxes: RenamingBoxes) -> None:
    """A tool that gives all photos other names is one incident."""
    boxes.add("a", "b")
    boxes.report("b", renamed(b"summer", [one._replace(name=b"x" + one.name) for one in SUMMER]))
    (found,) = boxes.vote()

    assert "200 files of photos were renamed on b" == found.headline
    assert 200 == found.subjects < MOST_RENAMED
