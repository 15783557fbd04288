"""Commands with several files, folders, and disks beside the service, and what is left when they are ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from integrity.service.control.client import DaemonClient
from integrity.service.control.socket import connect
from integrity.service.control.wire import LendRoots
from support.cli import Box
from support.comparing import back_up
from support.loopfs import LoopFS
from support.planted import plant, plant_path
from support.running import Running
from support.service import Service
from support.shapes import damage
from support.waiting import wait_until

NEVER = 'scrub = "0 0 29 feb *"'
pytestmark = pytest.mark.root("mkfs.xfs")


class Disks(NamedTuple):
    """Two roots on disks of their own, each with a damaged file 1 and 2 and a copy, and the service of both."""

    box: Box
    service: Service
    roots: tuple[Path, Path]

    def spell(self, command: str) -> list[str]:
        """Fill in a command: ``A1`` is file 1 of the first root, ``A`` that root, ``a`` its copy; B is the second."""
        words = {"A": self.roots[0], "B": self.roots[1], "a": "first", "b": "second"}
        words |= {f"{root}{number}": plant_path(words[root], number) for root in "AB" for number in (1, 2)}  # type: ignore[arg-type]
        return [str(words.get(word, word)) for word in command.split()]

    def borrow(self, *roots: Path) -> DaemonClient:
        """Ask for roots as a command does."""
        connected = connect(bytes(self.box.home / "run" / "control.sock"))
        assert connected is not None
        borrower = DaemonClient(connected)
        borrower.send(LendRoots(tuple(bytes(root) for root in roots)))
        return borrower


@pytest.fixture
def disks(integrity: Box, ext4: LoopFS, xfs: LoopFS, tmp_path: Path) -> Iterator[Disks]:
    """Damage two files of each disk, and start the service."""
    roots = tuple(plant(disk.folder / "root", 8, size_bytes=5000) for disk in (ext4, xfs))
    toml = f"[schedule]\n{NEVER}\n"
    for root, name in zip(roots, ("first", "second"), strict=True):
        copy = back_up(root, tmp_path / name)
        toml += f'[[root]]\npath = "{root}"\n[[copy]]\nname = "{name}"\nof = "{root}"\nurl = "{copy}"\n'
    integrity.run("scan", *roots, expect=0)
    for root in roots:
        for number in (1, 2):
            damage(plant_path(root, number), 100)
    integrity.run("scrub", *roots, expect=1)
    integrity.configure(f"{toml}\n")
    with Service(integrity) as service:
        service.wait_begun()
        yield Disks(integrity, service, (roots[0], roots[1]))
        assert 0 == integrity.run("scan", *roots, timeout=60).code  # whatever was lent is the service's again
        service.stop()


_COMMANDS = {
    "repair A1 A2": 0,
    "repair A A1 B2 --from a --from b": 0,
    "compare A1 A2 --with a": 1,
    "compare A A1 --with a": 1,
    "scan A1 B1 A": 0,
    "scrub A1 A2 B1": 1,
    "repair A1 B1 A1 --apply": 0,
    "repair A A2 --apply": 0,
    "repair --remove-kept --yes A B": 0,
    "accept B2 A1 B2 --reason meant": 0,
    "scrub A B": 0,
}


def test_several_paths_are_worked_on_at_once(disks: Disks) -> None:
    """No command waits for what it was lent itself."""
    for command, code in _COMMANDS.items():
        done = disks.box.run(*disks.spell(command), timeout=60)
        assert code == done.code, f"{command}: {done.stdout}{done.stderr}"
        assert "waiting" not in done.stderr, command


def test_two_commands_that_need_the_same_disks_take_turns(disks: Disks) -> None:
    """However they name them: neither waits for a disk that the other one keeps."""
    with ExitStack() as stack:
        commands = ["repair A1 B1", "repair B2 A2", "compare A1 A2 --with a", "repair B1 A1 A2"] * 2
        running = [stack.enter_context(Running(disks.box, *disks.spell(command))) for command in commands]
        codes = [each.finish(120).code for each in running]
    assert {0, 1} >= set(codes)


def test_command_that_is_ended_leaves_no_disk_behind(disks: Disks) -> None:
    """
    While it waits for one of two disks it keeps the other one; both are the service's again afterwards.

    So are those of a command that is killed in the middle of its work.
    """
    for number, expected in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        with disks.borrow(disks.roots[1]), Running(disks.box, *disks.spell("repair A1 B1 --apply")) as running:
            assert f"waiting: the service is comparing {disks.roots[1]}" in running.read_error()
            running.signal(number)
            assert expected == running.finish().code
        done = disks.box.run(*disks.spell("repair A1 B1"), expect=0, timeout=60)
        assert "waiting" not in done.stderr
    with Running(disks.box, *disks.spell("repair A1 B1 A2 B2 --apply")) as running:
        wait_until(lambda: "left to a command" in disks.box.run("status").stdout or running.has_ended, "it to begin")
        running.signal(signal.SIGKILL)
        assert running.finish().code in (0, -signal.SIGKILL)
