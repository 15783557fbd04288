"""A moved time explains other content only if it moved by itself, and not with the times of unchanged files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from integrity.jobs import runner
from integrity.jobs.options import ScanOptions
from integrity.model import Outcome
from support.cli import Box, Completed
from support.repairs import context_of
from support.results import met, notes, tallies
from support.shapes import put

S = 10**9
HOUR = 3_600 * S
PAST_NS = 1_577_872_800 * S + 123_456_789  # 2020-01-01 10:00:00.123456789
TOGETHER = ("silent_rewrite", "times_moved_together")
SIZE = 5_000


def plant(folder: Path, count: int = 6) -> list[Path]:
    """Write files whose times are days apart."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{number}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        put(path, os.urandom(SIZE))
        set_time(path, PAST_NS + number * 86_413 * S)
    return paths


def set_time(path: Path, time_ns: int) -> None:
    os.utime(path, ns=(time_ns, time_ns))


def damage(path: Path) -> None:
    """Change one bit and leave the time as it was."""
    before_ns = path.stat().st_mtime_ns
    with open(path, "r+b") as file:
        file.seek(1_000)
        byte = file.read(1)
        file.seek(1_000)
        file.write(bytes([byte[0] ^ 8]))
    set_time(path, before_ns)


def shift(paths: list[Path], by_ns: int) -> None:
    for path in paths:
        set_time(path, path.stat().st_mtime_ns + by_ns)


def found(done: Completed) -> list[tuple[str, str, str]]:
    return [(str(one["kind"]), str(one["certainty"]), Path(str(one["path"])).name) for one in done.findings]


@pytest.mark.parametrize("command", [["scan"], ["scrub"], ["scrub", "--no-scan"], ["scrub", "--percent", "100"]])
@pytest.mark.parametrize("by_ns", [-HOUR, HOUR])
def test_clock_change_on_fat(root: Path, integrity: Box, command: list[str], by_ns: int) -> None:
    """All times moved by an hour: the one file with other content was not written, and its neighbours are intact."""
    paths = plant(root)
    integrity.run("scrub", root, expect=0)
    damage(paths[3])
    shift(paths, by_ns)

    done = integrity.run("--json", *command, root, expect=1)

    assert [(*TOGETHER, "3.jpg")] == found(done)
    assert 1 == tallies(done)["damaged"]
    assert {"damaged": 1, "verified": 5} == tallies(integrity.run("--json", "scrub", root, expect=1))
    assert {"damaged": 1, "not_due": 5} == tallies(integrity.run("--json", "scan", root, expect=0))


@pytest.mark.parametrize("command", [["scan"], ["scrub"]])
def test_touched_folder(root: Path, integrity: Box, command: list[str]) -> None:
    """All files got the present time, one after the other."""
    paths = plant(root)
    integrity.run("scrub", root, expect=0)
    damage(paths[0])
    for path in paths:
        path.touch()

    assert [(*TOGETHER, "0.jpg")] == found(integrity.run("--json", *command, root, expect=1))


def test_touched_by_reference(root: Path, integrity: Box) -> None:
    """All files got the time of another file."""
    paths = plant(root, 2)
    integrity.run("scrub", root, expect=0)
    damage(paths[1])
    for path in paths:
        set_time(path, PAST_NS - 86_400 * S)

    assert [(*TOGETHER, "1.jpg")] == found(integrity.run("--json", "scan", root, expect=1))


@pytest.mark.parametrize("cut_ns", [100, 1_000, S, 2 * S])
@pytest.mark.parametrize("command", [["scan"], ["scrub"]])
def test_unpacked_over_it(root: Path, integrity: Box, cut_ns: int, command: list[str]) -> None:
    """Cut times are the same times, also that of a file by itself."""
    paths = plant(root)
    integrity.run("scrub", root, expect=0)
    damage(paths[3])
    set_time(paths[3], paths[3].stat().st_mtime_ns // cut_ns * cut_ns)

    done = integrity.run("--json", *command, root, expect=1)

    assert [("silent_rewrite", "ctime_moved", "3.jpg")] == found(done)


def test_fraction_filled_in(root: Path, integrity: Box) -> None:
    """``snapraid touch`` gives times of whole seconds a fraction."""
    paths = plant(root)
    for path in paths:
        set_time(path, path.stat().st_mtime_ns // S * S)
    integrity.run("scrub", root, expect=0)
    damage(paths[3])
    for number, path in enumerate(paths):
        shift([path], 271_828_182 + number)

    done = integrity.run("--json", "scan", root, expect=1)

    assert [("silent_rewrite", "ctime_moved", "3.jpg")] == found(done)


@pytest.mark.parametrize("command", [["scan"], ["scrub"]])
def test_half_of_a_folder_and_a_folder_of_two(root: Path, integrity: Box, command: list[str]) -> None:
    """One other file that moved by the same shift is company enough."""
    paths, two = plant(root / "half", 10), plant(root / "two", 2)
    integrity.run("scrub", root, expect=0)
    damage(paths[1])
    damage(two[0])
    shift([*paths[:5], *two], -HOUR)

    done = integrity.run("--json", *command, root, expect=1)

    assert [(*TOGETHER, "0.jpg"), (*TOGETHER, "1.jpg")] == sorted(found(done), key=lambda one: one[2])


def test_one_file_in_each_folder(root: Path, integrity: Box) -> None:
    """The folders above are asked where a folder has few files."""
    paths = [plant(root / f"title {number}", 1)[0] for number in range(9)]
    integrity.run("scrub", root, expect=0)
    damage(paths[4])
    for path in paths:
        path.touch()

    assert [str(paths[4])] == [one["path"] for one in integrity.run("--json", "scan", root, expect=1).findings]


@pytest.mark.parametrize("command", [["scan"], ["scrub"]])
def test_edit_among_shifted_files(root: Path, integrity: Box, command: list[str]) -> None:
    """A file whose time moved otherwise was written by itself, before, while or after the others moved."""
    paths = plant(root, 12)
    integrity.run("scrub", root, expect=0)
    put(paths[0], os.urandom(SIZE))
    damage(paths[1])
    shift(paths, HOUR)
    put(paths[2], os.urandom(SIZE))
    put(paths[3], os.urandom(SIZE))
    set_time(paths[3], PAST_NS + 40 * S)  # an older version, between the others' times

    done = integrity.run("--json", *command, root, expect=1)

    assert [(*TOGETHER, "1.jpg")] == found(done)
    assert 3 == tallies(done)["changed"]


@pytest.mark.parametrize("command", [["scan"], ["scrub"]])
def test_files_that_a_program_edited_all(root: Path, integrity: Box, command: list[str]) -> None:
    """Changed content in most files is somebody's work, whatever their times."""
    paths = plant(root)
    integrity.run("scrub", root, expect=0)
    for number, path in enumerate(paths):
        if number != 2:
            damage(path)
    shift(paths, HOUR)

    done = integrity.run("--json", *command, root, expect=0)

    assert ([], 5) == (found(done), tallies(done)["changed"])


def test_two_files_saved_together(root: Path, integrity: Box) -> None:
    """A program that saves a document and writes what belongs to it anew has not damaged the document."""
    paths = plant(root / "document", 2)
    plant(root / "others", 9)
    integrity.run("scrub", root, expect=0)
    put(paths[0], os.urandom(SIZE))
    put(paths[1], paths[1].read_bytes())

    done = integrity.run("--json", "scan", root, expect=0)

    assert {"changed": 1, "verified": 1, "not_due": 9} == tallies(done)


@pytest.mark.parametrize("command", [["scan"], ["scrub"], ["scrub", "--no-scan"]])
def test_run_on_the_damaged_file_alone(root: Path, integrity: Box, command: list[str]) -> None:
    """A run on one file looks at those beside it."""
    paths = plant(root, 20)
    integrity.run("scrub", root, expect=0)
    damage(paths[3])
    for path in paths:
        path.touch()

    assert [(*TOGETHER, "3.jpg")] == found(integrity.run("--json", *command, paths[3], expect=1))


def test_edit_looked_at_alone(root: Path, integrity: Box) -> None:
    """Of files that were edited all, one that is looked at alone is an edit."""
    paths = plant(root, 20)
    integrity.run("scrub", root, expect=0)
    for path in paths:
        put(path, os.urandom(SIZE))

    done = integrity.run("--json", "scan", paths[3], expect=0)

    assert ([], {"changed"}) == (done.findings, set(tallies(done)))


@pytest.mark.parametrize("command", [["scan"], ["scrub"], ["scrub", "--no-scan"]])
def test_damaged_file_is_looked_at_last(root: Path, integrity: Box, command: list[str]) -> None:
    """Runs on one file after the other leave the recorded times until nothing beside them has moved unread."""
    paths = plant(root, 5)
    integrity.run("scrub", root, expect=0)
    damage(paths[4])
    shift(paths, HOUR)
    for path in paths[:4]:
        integrity.run(*command, path, expect=0)

    assert [(*TOGETHER, "4.jpg")] == found(integrity.run("--json", *command, paths[4], expect=1))

    integrity.run("scan", root, expect=0)
    assert {"not_due": 4, "damaged": 1} == tallies(integrity.run("--json", "scan", root, expect=0))


@pytest.mark.parametrize("size", [0, 700])
def test_truncated_file(root: Path, integrity: Box, size: int) -> None:
    """A file that lost its end and moved with the others is damaged."""
    paths = plant(root)
    integrity.run("scrub", root, expect=0)
    os.truncate(paths[3], size)
    set_time(paths[3], PAST_NS + 3 * 86_413 * S)
    shift(paths, HOUR)

    assert [(*TOGETHER, "3.jpg")] == found(integrity.run("--json", "scan", root, expect=1))


def test_large_file(root: Path, integrity: Box) -> None:
    """Files of several blocks say which block is damaged."""
    paths = plant(root)
    put(paths[3], os.urandom(3 << 20))
    set_time(paths[3], PAST_NS)
    integrity.run("scrub", root, expect=0)
    damage(paths[3])
    shift(paths, HOUR)

    done = integrity.run("--json", "scrub", root, expect=1)

    assert ([(*TOGETHER, "3.jpg")], [0]) == (found(done), done.findings[0]["blocks"])


def test_copied_back_from_elsewhere(root: Path, integrity: Box, tmp_path: Path) -> None:
    """``cp -r`` over the files gives all of them other times; it can be accepted, and repaired by the old content."""
    paths = plant(root)
    integrity.run("scrub", root, expect=0)
    good = paths[3].read_bytes()
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    damage(copy / "3.jpg")
    for path in paths:
        path.unlink()
        shutil.copyfile(copy / path.name, path)

    assert [(*TOGETHER, "3.jpg")] == found(integrity.run("--json", "scrub", root, expect=1))

    put(paths[3], good)
    assert {"verified": 6} == tallies(integrity.run("--json", "scrub", root, expect=0))
    assert [] == met(integrity.run("--json", "scan", root, expect=0))


def cut(old: Path, new: Path, grain_ns: int) -> None:
    """Give copies the times of the originals, cut to a grain."""
    for path in old.iterdir():
        set_time(new / path.name, path.stat().st_mtime_ns // grain_ns * grain_ns)


@pytest.mark.parametrize("how", ["rebind", "rebind and scan", "release and scan", "release and scrub"])
@pytest.mark.parametrize("grain_ns", [1, 100, S, 2 * S, 86_400 * S, None])
@pytest.mark.parametrize("damaged", ["bit", "zeroed", "truncated"])
def test_damaged_on_the_way_to_another_disk(
    tmp_path: Path, integrity: Box, how: str, grain_ns: int | None, damaged: str
) -> None:
    """What copying damaged is a finding, whatever it did to the times, and however the folder is taken over."""
    old, new = tmp_path / "old", tmp_path / "new"
    plant(old)
    integrity.run("scrub", old, expect=0)
    shutil.copytree(old, new, copy_function=shutil.copyfile)
    with open(new / "3.jpg", "r+b") as file:
        if damaged == "truncated":
            file.truncate(2_000)
        else:
            file.write(bytes(4_096) if damaged == "zeroed" else bytes([file.peek(1)[0] ^ 1]))
    if grain_ns is not None:
        cut(old, new, grain_ns)
    if how.startswith("rebind"):
        command = ["root", "rebind", *(["--no-scrub"] if "scan" in how else []), str(old), str(new)]
        done = integrity.run("--json", *command)
    else:
        old.rename(tmp_path / "away")
        integrity.run("scan", old, expect=3)
        new.rename(old)
        integrity.run("root", "release", old, expect=0)
        new = old
    if how != "rebind":
        done = integrity.run("--json", how.rpartition(" ")[2], new)

    if grain_ns == 1 and "scan" in how:  # nothing that a scan looks at has moved
        done = integrity.run("--json", "scrub", new)
    assert (1, [("silent_rewrite", "3.jpg")]) == (done.code, [(kind, name) for kind, _, name in found(done)])


def test_written_after_a_move(tmp_path: Path, integrity: Box) -> None:
    """A file that was edited at the new place, by itself, is named and is no finding."""
    old, new = tmp_path / "old", tmp_path / "new"
    plant(old, 12)
    integrity.run("scrub", old, expect=0)
    shutil.copytree(old, new)
    put(new / "3.jpg", os.urandom(SIZE))

    done = integrity.run("--json", "root", "rebind", old, new, expect=0)

    assert ({"changed": 1, "verified": 11}, [str(new / "3.jpg")]) == (tallies(done), notes(done, "changed"))
    put(new / "4.jpg", os.urandom(SIZE))
    assert {"changed": 1, "not_due": 11} == tallies(integrity.run("--json", "scan", new, expect=0))


@pytest.mark.parametrize("is_whole", [True, False])
def test_older_version_restored_before_a_move(tmp_path: Path, integrity: Box, *, is_whole: bool) -> None:
    """Content that was recorded under its name is no damage, whatever time it came back with."""
    old, new = tmp_path / "old", tmp_path / "new"
    edited = plant(old)[3]
    former, time_ns = edited.read_bytes(), edited.stat().st_mtime_ns
    integrity.run("scan", old, expect=0)
    put(edited, os.urandom(SIZE))
    integrity.run("scan", old, expect=0)
    put(edited, former if is_whole else bytes([former[0] ^ 1]) + former[1:])
    set_time(edited, time_ns + 86_400 * S)
    shutil.copytree(old, new)

    done = integrity.run("--json", "root", "rebind", old, new)

    expected = (0, []) if is_whole else (1, [(*TOGETHER, "3.jpg")])
    assert expected == (done.code, found(done))
    assert len(notes(done, "changed")) == is_whole


def copy_without_times(paths: list[Path]) -> None:
    """Write all files anew with their present content, as ``rsync`` without ``-t`` does."""
    for path in paths:
        new = path.with_suffix(".new")
        put(new, path.read_bytes())
        new.rename(path)


def test_folder_that_keeps_no_times(root: Path, integrity: Box) -> None:
    """That is said once; from then on other content there is an edit, and rot is still found where ctime shows it."""
    paths = plant(root / "mirror")
    integrity.run("scan", root, expect=0)
    warned = []
    for _ in range(4):
        copy_without_times(paths)
        warned.append(notes(integrity.run("--json", "scan", root, expect=0), "warning"))
    put(paths[2], os.urandom(SIZE))
    copy_without_times(paths)

    done = integrity.run("--json", "scan", root, expect=0)

    assert [[], [], [str(root / "mirror")], []] == warned
    assert {"changed": 1, "verified": 5} == tallies(done)
    damage(paths[3])
    assert [("silent_rewrite", "ctime_moved", "3.jpg")] == found(integrity.run("--json", "scrub", root, expect=1))


def test_scan_that_is_stopped(root: Path, integrity: Box) -> None:
    """A stopped scan leaves the recorded times of what it read: by them the next one knows that all of them moved."""
    paths = plant(root)
    integrity.run("scrub", root, expect=0)
    damage(paths[3])
    for path in paths:
        path.touch()
    with context_of(integrity) as context:

        def stop(_: float) -> bool:
            context.stop.set()
            return True

        context.wait = stop  # when files that were written a moment ago are to be read again
        summary = runner.scan(context, (os.fsencode(root),), ScanOptions())
    assert Outcome.INTERRUPTED == summary.outcome

    assert [(*TOGETHER, "3.jpg")] == found(integrity.run("--json", "scan", root, expect=1))


def test_accepted_and_repaired(root: Path, integrity: Box, tmp_path: Path) -> None:
    """The finding ends as others do; afterwards the file has its present time, or the recorded one."""
    paths = plant(root)
    shutil.copytree(root, tmp_path / "copy")
    integrity.run("scrub", root, expect=0)
    for path in paths[2:4]:
        damage(path)
    shift(paths, HOUR)
    integrity.run("scan", root, expect=1)

    integrity.run("accept", paths[2], "--reason", "mine", expect=0)
    integrity.run("repair", paths[3], "--from", tmp_path / "copy", "--apply", expect=0)

    assert 6 == tallies(integrity.run("--json", "scrub", root, expect=0))["verified"]
    assert 6 == tallies(integrity.run("--json", "scan", root, expect=0))["not_due"]


@pytest.mark.parametrize("command", [["scan"], ["scrub"]])
def test_archive(root: Path, integrity: Box, command: list[str]) -> None:
    """In an archive each changed file is a finding; the one that moved with others says so, and only that."""
    integrity.configure(f'[[root]]\npath = "{root}"\npolicy = "archive"\n')
    paths = plant(root)
    integrity.run("scrub", root, expect=0)
    damage(paths[3])
    shift(paths, HOUR)
    put(paths[4], os.urandom(SIZE))

    integrity.run(*command, root, expect=1)

    kinds = {(Path(one["path"]).name, one["kind"], one["certainty"]) for one in integrity.json("findings")}
    assert {("3.jpg", *TOGETHER), ("4.jpg", "changed", None)} == kinds
