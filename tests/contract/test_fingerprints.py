"""
A folder whose fingerprint is the recorded one is as it is recorded: nothing that may be otherwise goes by unseen.

What a scan says must never depend on fingerprints: each is held against a catalog from which they were taken away.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from integrity.catalog import baselines, findings
from integrity.catalog.db import Connection
from integrity.catalog.findings import NewFinding
from integrity.catalog.roots import find_fingerprints, set_fingerprints
from integrity.files.excludes import Excludes
from integrity.files.listing import FolderListing
from integrity.files.open_beneath import open_root
from integrity.files.walk import walk
from integrity.model import BaselineReason, FileId, FindingKind, FolderId
from support.catalogs import NOW, CatalogBox, make_reading
from support.cli import Box, Completed
from support.reading import let_age
from support.results import met, tallies

FOLDERS = ("a", "a/deep", "b", "c", "d", "e")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Plant some folders with some files each, all older than what is racy."""
    for folder in FOLDERS:
        (tmp_path / "root" / folder).mkdir(parents=True)
        for number in range(4):
            path = tmp_path / "root" / folder / f"{number}.jpg"
            path.write_bytes(os.urandom(1_000 + number))
            os.utime(path, (1_500_000_000, 1_500_000_000 + number))
    let_age(path)
    return tmp_path / "root"


def list_all(root: Path) -> dict[bytes, FolderListing]:
    fd = open_root(os.fsencode(root))
    try:
        return {listing.folder: listing for listing in walk(fd, excludes=Excludes())}
    finally:
        os.close(fd)


def read_fingerprints(catalog: Path) -> dict[bytes, bytes | None]:
    with closing(Connection(bytes(catalog))) as c:
        return dict(c.rows("SELECT path, fingerprint FROM folder"))


def drop_fingerprints(catalog: Path) -> None:
    with closing(Connection(bytes(catalog))) as c:
        c.run("UPDATE folder SET fingerprint = NULL")


def test_first_scan_takes_them(root: Path, integrity: Box) -> None:
    """They are those of the folders as they are walked; one that changes loses its own until it was seen unchanged."""
    integrity.run("scan", root, expect=0)
    listed = {folder: listing.fingerprint for folder, listing in list_all(root).items() if listing.files}
    assert read_fingerprints(integrity.catalog) == listed
    assert None not in listed.values()

    (root / "b" / "new.jpg").write_bytes(b"new")
    integrity.run("scan", root, expect=0)
    assert [folder for folder, one in read_fingerprints(integrity.catalog).items() if one is None] == [b"b"]

    integrity.run("scan", root, expect=0)
    assert read_fingerprints(integrity.catalog)[b"b"] == list_all(root)[b"b"].fingerprint


def test_folder_of_which_a_part_is_recorded_together_gets_none(box: CatalogBox) -> None:
    """Nor does one with a racy file; where all files are recorded together, in whatever order, it has one."""
    box.record(b"a/1", make_reading("1"))
    racy = make_reading("racy")
    readings = {
        b"a/2": make_reading("2"),
        b"b/2": make_reading("2"),
        b"c/2": make_reading("2"),
        b"c/1": racy._replace(witness=racy.witness._replace(is_racy=True)),
        b"b/1": make_reading("1"),
    }
    box.record_all(readings)

    assert find_kept(box, b"a", b"b", b"c") == {b"b"}


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "0.jpg").rename(folder / "00.jpg"),
        lambda folder: (folder / "new").write_bytes(b""),
        lambda folder: (folder / "0.jpg").unlink(),
        lambda folder: os.utime(folder / "0.jpg", (1, 1)),
        lambda folder: (folder / "0.jpg").chmod(0o600),
        lambda folder: os.truncate(folder / "0.jpg", 5),
        lambda folder: shutil.copy2(folder / "0.jpg", folder / "x") and (folder / "x").rename(folder / "0.jpg"),
    ],
    ids=["name", "new", "gone", "mtime", "ctime", "size", "inode"],
)
def test_fingerprint_changes_with_each_of_its_parts(root: Path, change: Callable[[Path], object]) -> None:
    """Name, number, size, times and inode of each file; other folders keep theirs."""
    before = {folder: listing.fingerprint for folder, listing in list_all(root).items()}
    change(root / "b")
    after = {folder: listing.fingerprint for folder, listing in list_all(root).items()}

    assert [folder for folder in before if before[folder] != after[folder]] == [b"b"]


def test_border_between_names_and_files_counts(tmp_path: Path) -> None:
    """Two names that together read as one other name are another folder."""
    os.utime(tmp_path, (1, 1))
    (tmp_path / "one" / "x").mkdir(parents=True)
    (tmp_path / "two" / "x").mkdir(parents=True)
    for name in ("ab", "c"):
        os.link(put(tmp_path / "file"), tmp_path / "one" / "x" / name)
    for name in ("a", "bc"):
        os.link(tmp_path / "file", tmp_path / "two" / "x" / name)
    listed = list_all(tmp_path)

    assert listed[b"one/x"].fingerprint != listed[b"two/x"].fingerprint


def put(path: Path) -> Path:
    path.touch()
    return path


def test_folder_from_which_something_is_left_out_has_none(root: Path) -> None:
    """What is excluded may come to be covered, or the other way round, without any change of the folder."""
    (root / "b" / "Thumbs.db").write_bytes(b"view")
    (root / "c" / ".nfs00001").write_bytes(b"view")
    (root / "d" / ".bashrc").write_bytes(b"kept")
    without = [folder for folder, listing in list_all(root).items() if listing.fingerprint is None]

    assert without == [b"b", b"c"]


def touch_ctime(root: Path) -> None:
    (root / "a" / "1.jpg").chmod(0o600)


def rename_between(root: Path) -> None:
    (root / "a" / "1.jpg").rename(root / "b" / "moved.jpg")


def rename_folder(root: Path) -> None:
    (root / "a" / "deep").rename(root / "b" / "deep")


def swap_folders(root: Path) -> None:
    (root / "d").rename(root / "x")
    (root / "e").rename(root / "d")
    (root / "x").rename(root / "e")


def rewrite_silently(root: Path) -> None:
    path = root / "c" / "2.jpg"
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def hide(root: Path) -> None:
    (root / "e" / "0.jpg").rename(root.parent / "hidden")


def show(root: Path) -> None:
    (root.parent / "hidden").rename(root / "e" / "0.jpg")


def rewrite(root: Path) -> None:
    (root / "b" / "0.jpg").write_bytes(b"new content")


def link(root: Path) -> None:
    os.link(root / "b" / "0.jpg", root / "d" / "link.jpg")


def nothing(root: Path) -> None:
    assert root.exists()


STEPS = (nothing, touch_ctime, nothing, rename_between, link, rewrite, nothing, rename_folder, swap_folders, nothing)
HARD = (nothing, rewrite_silently, nothing, hide, nothing, show, nothing, rewrite, nothing)


@pytest.mark.long
@pytest.mark.parametrize("steps", [STEPS, HARD], ids=["honest", "states"])
@pytest.mark.parametrize("policy", ["mutable", "archive"])
def test_scans_say_the_same_with_and_without(
    root: Path, tmp_path: Path, steps: tuple[Callable[[Path], None], ...], policy: str
) -> None:
    """Whatever happens to files, and whatever state they are in, counts, findings and notes are the same."""
    boxes = []
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
        box = Box(tmp_path / name)
        box.configure(f'[[root]]\npath = "{root}"\npolicy = "{policy}"\n')
        box.run("scan", root, expect=0)
        box.run("scrub", root, expect=0)
        boxes.append(box)

    taken = 0
    for step in steps:
        step(root)
        said = []
        for box in boxes:
            if box is boxes[1]:
                drop_fingerprints(box.catalog)
            commands = [("scan", root), ("scan", root)] + ([("scrub", root)] if step is rewrite_silently else [])
            said.append([what_it_says(box.run("--json", *command)) for command in commands])
        assert said[0] == said[1], step.__name__
        taken += sum(one is not None for one in read_fingerprints(boxes[0].catalog).values())
    assert taken > len(steps)


def what_it_says(result: Completed) -> object:
    """Leave out what may differ between two runs: times and numbers."""
    return result.code, tallies(result), sorted(map(str, met(result)))


def test_what_is_left_out_from_now_on_is_no_file_that_is_unchanged(root: Path, integrity: Box) -> None:
    """Though nothing in its folder changed."""
    for _ in range(2):
        integrity.run("scan", root, expect=0)
    integrity.configure(f'[[root]]\npath = "{root}"\nexclude = ["/d/*.jpg"]\n')
    summary = integrity.summary("scan", root)

    assert summary["files_not_due"] == 4 * (len(FOLDERS) - 1)


def take(box: CatalogBox, *folders: bytes) -> dict[bytes, FolderId]:
    """Give folders some fingerprint; return their numbers."""
    with box.catalog.transaction() as c:
        ids = {one.folder: one.id for one in find_fingerprints(c, box.root.id, folders)}
        set_fingerprints(c, [(folder_id, b"f" * 16, 2) for folder_id in ids.values()])
    return ids


def find_kept(box: CatalogBox, *folders: bytes) -> set[bytes]:
    with box.catalog.read() as c:
        return {one.folder for one in find_fingerprints(c, box.root.id, folders) if one.fingerprint is not None}


def freeze(box: CatalogBox, file_id: FileId) -> None:
    with box.catalog.transaction() as c:
        new = NewFinding(FindingKind.ROT, box.root.id, file_id, b"a/1", "message")
        findings.open_finding(c, new, now=NOW, run_id=box.run_id)


def replace(box: CatalogBox, file_id: FileId) -> None:
    with box.catalog.transaction() as c:
        baselines.replace_baseline(
            c, box.root, file_id, make_reading("other"),
            because=BaselineReason.EDITED, now=NOW, boot_id=None,
        )  # fmt: skip


def move(box: CatalogBox, file_id: FileId) -> None:
    with box.catalog.transaction() as c:
        folder_id = c.value("SELECT id FROM folder WHERE path = ?", b"b")
        c.run("UPDATE file SET folder_id = ?, name = ? WHERE id = ?", folder_id, b"moved", file_id)


def remove(box: CatalogBox, file_id: FileId) -> None:
    with box.catalog.transaction() as c:
        c.run("DELETE FROM file WHERE id = ?", file_id)


def add(box: CatalogBox, file_id: FileId) -> None:
    assert file_id
    box.record(b"a/new", make_reading("new", inode=77))


@pytest.mark.parametrize(
    ("change", "left"),
    [(freeze, {b"b", b"c"}), (replace, {b"b", b"c"}), (move, {b"c"}), (remove, {b"b", b"c"}), (add, {b"b", b"c"})],
)
def test_rows_that_change_drop_the_fingerprint_of_their_folder(
    box: CatalogBox, change: Callable[[CatalogBox, FileId], None], left: set[bytes]
) -> None:
    """Whoever writes them: the catalog sees to it; what is verified keeps it."""
    paths = [folder + b"/" + name for folder in (b"a", b"b", b"c") for name in (b"1", b"2")]
    ids = box.record_all({path: make_reading(path, inode=number) for number, path in enumerate(paths)})
    take(box, b"a", b"b", b"c")
    assert find_kept(box, b"a", b"b", b"c") == {b"a", b"b", b"c"}

    change(box, ids[0])

    assert find_kept(box, b"a", b"b", b"c") == left
