"""kill -9 before each step of a repair: the name leads to the damaged file or to the good one, whole, always."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from integrity.jobs import runner
from integrity.jobs.context import Context
from integrity.jobs.options import ScanOptions, ScrubOptions
from support import AnyPath
from support.cli import Box, make_command
from support.planted import age
from support.proc import count_calls, signal_at
from support.repairs import BLOCK, CONFIG, STEPS, blocks, context_of, leftovers, run_repair
from support.shapes import damage
from support.stored import query

GOOD = blocks(2)
each_step = pytest.mark.parametrize("stride", [31, pytest.param(1, marks=pytest.mark.long)])
"""Kill a repair before one in 31 of its steps; before each of them in the long run."""

STEPS_WITHOUT = [call for call in STEPS if call != "renameat2"]


@dataclass
class Scene:
    """
    Many damaged files, one for each step of a repair, and the copy that has them good.

    Attributes:
        damaged: content of each file before its repair; None: it is gone.
        names: of each file.
        points: at how many steps a repair was killed.
        used: index of the last file that was repaired.
    """

    box: Box
    root: Path
    copy: Path
    damaged: bytes | None
    names: list[tuple[Path, ...]] = field(default_factory=list)
    points: int = 0
    used: int = 0


def make_scene(box: Box, folder: Path, size: int, *, links: int = 1, gone: str = "") -> Scene:
    """Record ``size`` files with ``links`` names each; damage all in one block, or take them (or folders) away."""
    policy = f'[[root]]\npath = "{folder / "root"}"\npolicy = "archive"\n' if gone else ""
    box.configure(CONFIG + policy)
    scene = Scene(box, folder / "root", folder / "copy", None)
    scene.copy.mkdir()
    for number in range(size):
        names = tuple(scene.root / f"{number}" / f"name{link}.bin" for link in range(links))
        names[0].parent.mkdir(parents=True)
        names[0].write_bytes(GOOD)
        for name in names[1:]:
            os.link(names[0], name)
        scene.names.append(names)
    # The copy is flat but for the folders: hard links are files of their own there, as in most backups.
    for names in scene.names:
        (scene.copy / names[0].parent.name).mkdir()
        (scene.copy / names[0].relative_to(scene.root)).write_bytes(GOOD)
    age(*(names[0] for names in scene.names))
    with context_of(box) as context:
        runner.scan(context, (os.fsencode(scene.root),), ScanOptions())
        for names in scene.names:
            if gone == "folder":
                shutil.rmtree(names[0].parent)
            elif gone:
                names[0].unlink()
            else:
                damage(names[0], BLOCK + 5)
        if not gone:
            scene.damaged = scene.names[0][0].read_bytes()
        (scene.root / "other.bin").write_bytes(b"keeps the root from being empty")
        if gone:
            runner.scan(context, (os.fsencode(scene.root),), ScanOptions())
        else:
            runner.scrub(context, (os.fsencode(scene.root),), ScrubOptions())
    assert sum(map(len, scene.names)) == query(box, "SELECT count(*) FROM finding WHERE state = 'open'")[0][0]
    return scene


def kill_at_steps(scene: Scene, calls: Sequence[str], *options: str, stride: int, has_exchange: bool = True) -> None:
    """Repair file after file, killed once at every ``stride``-th step; let a scan recover, and repair it again."""
    files = iter(enumerate(scene.names))

    def name_command() -> list[AnyPath]:
        scene.used, names = next(files)
        return make_command("repair", names[0], "--from", scene.copy, "--apply", *options)

    made = count_calls(name_command(), calls, env=scene.box.environment, has_exchange=has_exchange)
    for call in calls:
        for nth in range(1, made.get(call, 0) + 1, stride):
            command, names = name_command(), scene.names[scene.used]
            ended = signal_at(command, call, nth, env=scene.box.environment, has_exchange=has_exchange)
            if not ended.was_killed:  # its threads have shared the work in another way
                assert ended.code == 0, ended
                break
            scene.points += 1
            if has_exchange and scene.damaged is not None:
                for name in names:
                    assert name.read_bytes() in (GOOD, scene.damaged)  # before anything is recovered
            with context_of(scene.box) as context:
                check_recovered(scene, names, context, is_discarded="--discard" in options)
                run_repair(context, names[:1], [scene.copy])
            assert all(name.read_bytes() == GOOD for name in names), (call, nth)
    assert query(scene.box, "SELECT count(*) FROM meta WHERE key LIKE 'repair/%'") == [(0,)]
    check_end(scene)


def check_recovered(scene: Scene, names: Sequence[Path], context: Context, *, is_discarded: bool) -> None:
    """After the next run on the root, whatever it is, all is whole and nothing is lost or left lying about."""
    folder = names[0].parent if names[0].parent.exists() else names[0].parents[1]
    runner.scan(context, (os.fsencode(folder),), ScanOptions())
    contents = {name.read_bytes() if name.exists() else None for name in names}
    assert len(contents) == 1, names
    assert contents <= {GOOD, scene.damaged}, names
    assert len({name.stat().st_ino for name in names if name.exists()}) <= 1
    left = [path.read_bytes() for path in leftovers(names[0].parent)]
    if contents == {GOOD} and scene.damaged is not None:
        assert left in ([[scene.damaged]] + ([[]] if is_discarded else [])), names
    else:
        assert left == [], names


def check_end(scene: Scene) -> None:
    """All that was repaired is what was recorded, and the findings on it are over."""
    done = scene.names[: scene.used + 1]
    with context_of(scene.box) as context:
        for names in done:
            assert all(name.read_bytes() == GOOD for name in names)
            summary = runner.scrub(context, (os.fsencode(names[0].parent),), ScrubOptions())
            assert summary.counts.verified == len(names)
    open_paths = {path for (path,) in query(scene.box, "SELECT path FROM finding WHERE state = 'open'")}
    for names in done:
        assert not open_paths & {os.fsencode(name.relative_to(scene.root)) for name in names}


@pytest.mark.root("strace")
@pytest.mark.timeout(900)
@each_step
def test_repair_without_exchange_that_is_killed_at_any_step(integrity: Box, tmp_path: Path, stride: int) -> None:
    """Where names can't be exchanged, the damaged file is out of the way for a moment; a scan does not miss it."""
    scene = make_scene(integrity, tmp_path, 90 // stride + 30)
    kill_at_steps(scene, STEPS_WITHOUT, stride=stride, has_exchange=False)
    assert scene.points > 15 // stride


@pytest.mark.root("strace")
def test_only_file_of_a_root_that_is_out_of_its_place(integrity: Box, tmp_path: Path) -> None:
    """Its root looks empty after a kill, and is not suspended for that: the next run ends the repair."""
    integrity.configure(CONFIG)
    root, copy = tmp_path / "root", tmp_path / "copy"
    for folder in (root, copy):
        folder.mkdir()
        (folder / "a").write_bytes(GOOD)
    age(root / "a")
    integrity.run("scan", root, expect=0)
    damage(root / "a", 5)
    integrity.run("scrub", root, expect=1)
    for nth in count(1):
        command = make_command("repair", root, "--from", copy, "--apply")
        if not signal_at(command, "renameat", nth, env=integrity.environment, has_exchange=False).was_killed:
            break
        if not (root / "a").exists():
            integrity.run("scan", root, expect=0)
            assert GOOD == (root / "a").read_bytes()
            integrity.run("findings", expect=0)
            return
    raise AssertionError("the file was never out of its place")


@pytest.mark.root("strace")
@pytest.mark.timeout(900)
@each_step
@pytest.mark.parametrize("has_exchange", [pytest.param(True, marks=pytest.mark.long), False])
def test_repair_of_a_file_with_names_that_is_killed_at_any_step(
    integrity: Box, tmp_path: Path, has_exchange: bool, stride: int
) -> None:
    """All names lead to the same file, before and after; the damaged one is removed in the end, as was asked for."""
    scene = make_scene(integrity, tmp_path, 90 // stride + 30, links=3)
    calls = STEPS if has_exchange else STEPS_WITHOUT
    kill_at_steps(scene, calls, "--discard", stride=stride, has_exchange=has_exchange)
    assert scene.points > 20 // stride


@pytest.mark.root("strace")
@pytest.mark.timeout(900)
@each_step
@pytest.mark.parametrize("gone", ["file", "folder"])
def test_repair_of_a_file_that_is_gone_that_is_killed_at_any_step(
    integrity: Box, tmp_path: Path, gone: str, stride: int
) -> None:
    """It is there, whole, or not there; nothing is left of an attempt but, perhaps, its empty folder."""
    scene = make_scene(integrity, tmp_path, 80 // stride + 30, gone=gone)
    kill_at_steps(scene, STEPS, stride=stride)
    assert scene.points > 12 // stride
