"""Each scenario of the texts beside this module, on the disks that fit."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from support.cli import Box
from support.loopfs import unmount
from support.machine import need_root
from support.mountinfo import find_mounts
from support.preload import Shims
from support.scenario import HERE, Scenario, Stage, read_scenarios
from truth.disks import DISKS, Disk
from truth.unlasting import UNLASTING, is_possible


def _make_cases() -> Iterator[ParameterSet]:
    """In the short run each scenario is tried with each value once, on one disk, each time another one."""
    turns = itertools.count()
    for path in sorted(Path(__file__).parent.glob("*.txt")):
        for scenario in read_scenarios(path):
            possible = [disk for disk in scenario.disks if is_possible(disk)] or scenario.disks
            turn = possible[next(turns) % len(possible)] if scenario.is_usual else None
            for disk in scenario.disks:
                marks = () if disk == turn else (pytest.mark.long,)
                yield pytest.param(scenario, disk, marks=marks, id=f"{path.stem}: {scenario.title}: {disk}")


@pytest.fixture(scope="session")
def mounted() -> Iterator[Callable[[str], Disk | None]]:
    """Mount each disk when it is first asked for."""
    with ExitStack() as stack:
        disks: dict[str, Disk] = {}

        def get(name: str) -> Disk | None:
            if name == HERE:
                return None
            need_root()
            if name not in disks:
                disk = (DISKS | UNLASTING)[name.removesuffix(" cached")]
                disks[name] = stack.enter_context(disk(name.endswith(" cached")))
            return disks[name]

        yield get


@pytest.mark.parametrize(("scenario", "name"), list(_make_cases()))
def test_scenario(
    scenario: Scenario, name: str, mounted: Callable[[str], Disk | None], tmp_path: Path, shims: Shims
) -> None:
    """The program says what the text says."""
    disk = mounted(name)
    home = (tmp_path if disk is None else disk.folder) / "scenario"
    (home / "data").mkdir(parents=True)
    failure = ""
    try:
        Stage(home / "data", Box(tmp_path / "home"), disk, shims).play(scenario)
    except AssertionError as error:
        failure = str(error)
    finally:
        for mount in reversed(list(find_mounts())):
            if mount.point.startswith(bytes(home)):
                unmount(mount.point)
        if disk is not None:
            disk.heal()
        if failure:
            subprocess.run(["chattr", "-R", "-f", "-i", "-a", home], check=False)  # what the scenario did not come to
        shutil.rmtree(home)
    if failure:
        pytest.fail(failure, pytrace=False)
