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


def difference(pressure: Pressure, before: float | None) -> float:
    after = pressure()
    assert before is not None
    assert after is not None
    return after - before


@pytest.mark.parametrize("work", [{"reads": 1}, {"writes": 1}, {"in_flight": 1}])
def test_waiting_counts_when_the_disk_had_work(machine: Machine, work: dict[str, int]) -> None:
    """Seconds of "some" since the last call, whatever the work was."""
    pressure = machine.watch("sda")
    before = pressure()
    machine.put_stalled(5_300_000)
    machine.put_work(**work)

    assert 0.3 == pytest.approx(difference(pressure, before))


def test_waiting_for_another_disk_does_not_count(machine: Machine) -> None:
    """Without one request on this disk, nobody waited for it."""
    pressure = machine.watch("sda")
    before = pressure()
    machine.put_stalled(9_000_000)

    assert 0.0 == difference(pressure, before)


def test_work_of_a_disk_counts_where_busy_processors_hide_the_waiting(machine: Machine) -> None:
    """The kernel's pressure is diluted by each processor that works: the disk's own time is not."""
    pressure = machine.watch("sda")
    before = pressure()
    machine.put_stalled(5_010_000)
    machine.put_work(reads=9, busy_ms=250)

    assert 0.25 == pytest.approx(difference(pressure, before))


def test_all_waiting_counts_where_no_disk_is_known(machine: Machine) -> None:
    """A server's share has no block device here."""
    pressure = machine.watch()
    before = pressure()
    machine.put_stalled(5_300_000)

    assert 0.3 == pytest.approx(difference(pressure, before))


def test_disk_alone_tells_where_the_kernel_has_no_pressure(machine: Machine) -> None:
    """Older kernels and hidden /proc: the disk's busy time remains, and it is said that this is not all."""
    machine.pressure_file.unlink()
    pressure = machine.watch("sda")
    before = pressure()
    machine.put_work(reads=9, busy_ms=250)

    assert not pressure.has_stalls
    assert 0.25 == pytest.approx(difference(pressure, before))


def test_nothing_is_known_without_pressure_and_disk(machine: Machine) -> None:
    """Then, and only then, nothing is said."""
    machine.pressure_file.unlink()

    assert machine.watch()() is None


def test_disk_that_is_pulled_out_is_no_error(machine: Machine) -> None:
    """What is left is the waiting."""
    pressure = machine.watch("sda")
    before = pressure()
    os.unlink(machine.blocks_folder / "sda" / "stat")
    machine.put_stalled(5_300_000)

    assert 0.3 == pytest.approx(difference(pressure, before))


def test_this_machine_is_read_without_error():
    """The real files, whatever this kernel has."""
    stalled_us = read_stalled_us()

    assert stalled_us is None or stalled_us >= 0
    Pressure(os.listdir("/sys/class/block"))()
