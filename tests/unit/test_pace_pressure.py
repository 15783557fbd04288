"""What others suffer is read from the kernel's files; another disk's trouble is none of this one's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from integrity.files.system_load import Pressure, read_stalled_us


class Machine:
    """The files of a kernel with one disk."""

    def __init__(self, folder: Path) -> None:
        self.pressure_file = folder / "io"
        self.blocks_folder = folder / "block"
        (self.blocks_folder / "sda").mkdir(parents=True)
        self.put_stalled(5_000_000)
        self.put_work()

    def put_stalled(self, total_us: int) -> None:
        self.pressure_file.write_text(
            f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total_us}\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=99999999999\n"
        )

    def put_work(self, *, reads: int = 0, writes: int = 0, in_flight: int = 0, busy_ms: int = 0) -> None:
        (self.blocks_folder / "sda" / "stat").write_text(
            f"   {reads} 0 0 0 {writes} 0 0 0 {in_flight} {busy_ms} 0 0 0 0 0 0 0\n"
        )

    def watch(self, *layers: str) -> Pressure:
        return Pressure(layers, pressure_file=str(self.pressure_file), blocks_folder=str(self.blocks_folder))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Make one."""
    return Machine(tmp_path)


BUSY = {"reads": 9, "busy_ms": 250}


@pytest.mark.parametrize(
    ("layers", "stalled_us", "work", "expected"),
    [
        pytest.param(["sda"], 5_300_000, {"reads": 1}, 0.3, id="a read on the disk"),
        pytest.param(["sda"], 5_300_000, {"writes": 1}, 0.3, id="a write"),
        pytest.param(["sda"], 5_300_000, {"in_flight": 1}, 0.3, id="a request under way"),
        pytest.param(["sda"], 9_000_000, {}, 0.0, id="nobody waited for this disk"),
        pytest.param(["sda"], 5_010_000, BUSY, 0.25, id="busy processors hide the waiting"),
        pytest.param([], 5_300_000, {}, 0.3, id="no disk is known, as of a share"),
        pytest.param(["sda"], None, BUSY, 0.25, id="a kernel without pressure, or a hidden /proc"),
    ],
)
def test_waiting_counts_when_the_disk_had_work(
    machine: Machine, layers: list[str], stalled_us: int | None, work: dict[str, int], expected: float
) -> None:
    """Seconds of "some" since the last call, or of the disk's own work; it is said where that is all that is known."""
    if stalled_us is None:
        machine.pressure_file.unlink()
    pressure = machine.watch(*layers)
    before = pressure()
    if stalled_us is not None:
        machine.put_stalled(stalled_us)
    machine.put_work(**work)

    assert pressure.has_stalls == (stalled_us is not None)
    assert expected == pytest.approx((pressure() or 0) - (before or 0))


def test_nothing_is_known_without_pressure_and_disk(machine: Machine) -> None:
    """Then, and only then, nothing is said."""
    machine.pressure_file.unlink()

    assert machine.watch()() is None


def test_disk_that_is_pulled_out_is_no_error(machine: Machine) -> None:
    """What is left is the waiting."""
    pressure = machine.watch("sda")
    before = pressure() or 0
    os.unlink(machine.blocks_folder / "sda" / "stat")
    machine.put_stalled(5_300_000)

    assert 0.3 == pytest.approx((pressure() or 0) - before)


def test_this_machine_is_read_without_error():
    """The real files, whatever this kernel has."""
    stalled_us = read_stalled_us()

    assert stalled_us is None or stalled_us >= 0
    Pressure(os.listdir("/sys/class/block"))()
