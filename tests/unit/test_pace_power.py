"""Whether a disk sleeps and how hot it is are read without waking it; where that can't be told, nothing is said."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from integrity.config.definition import PaceConfig
from integrity.files.block_devices import is_asleep, read_power_mode, temperature
from integrity.service.inventory import may_read

ACTIVE, IDLE, STANDBY_Z, STANDBY_Y, SPUN_DOWN = 0xFF, 0x80, 0x00, 0x01, 0x40


def descriptor_sense(count: int, *, status: int = 0x50) -> bytes:
    """Answer as libata does: SAT-4, ATA Status Return descriptor."""
    sense = bytearray(22)
    sense[0], sense[7], sense[8], sense[9] = 0x72, 14, 0x09, 12
    sense[2:4] = b"\x00\x1d"
    sense[13], sense[21] = count, status
    return bytes(sense)


def fixed_sense(count: int, *, status: int = 0x50) -> bytes:
    """Answer as many bridges do."""
    sense = bytearray(18)
    sense[0], sense[4], sense[6] = 0x70, status, count
    sense[12:14] = b"\x00\x1d"
    return bytes(sense)


@pytest.mark.parametrize("make", [descriptor_sense, fixed_sense])
@pytest.mark.parametrize(
    ("count", "expected"), [(ACTIVE, False), (IDLE, False), (STANDBY_Z, True), (STANDBY_Y, True), (SPUN_DOWN, True)]
)
def test_power_mode_is_read_from_both_formats(make: object, count: int, expected: bool) -> None:
    """Standby in its variants sleeps, idle and active don't."""
    assert callable(make)
    assert read_power_mode(make(count)) is expected


@pytest.mark.parametrize(
    "sense",
    [
        b"",
        bytes(32),
        descriptor_sense(STANDBY_Z, status=0x51),
        fixed_sense(STANDBY_Z, status=0x51),
        b"\x70\x00\x05" + bytes(9) + b"\x20\x00" + bytes(4),  # ILLEGAL REQUEST, invalid command
        descriptor_sense(STANDBY_Z)[:13],
    ],
)
def test_any_other_answer_tells_nothing(sense: bytes) -> None:
    """A command that failed or is not known is not taken for a sleeping disk."""
    assert read_power_mode(sense) is None


@pytest.mark.parametrize(
    ("status", "expected"), [("suspended", True), ("suspending", True), ("active", None), ("unsupported", None)]
)
def test_disk_that_the_kernel_suspended_sleeps(tmp_path: Path, status: str, expected: bool | None) -> None:
    """It is not asked itself: any command would wake it. The kernel's word on others says nothing of the disk's."""
    put(tmp_path / "sda/device/power/runtime_status", status)

    assert is_asleep("sda", blocks_folder=str(tmp_path), nodes_folder="/nowhere") is expected


def test_file_that_is_no_disk_is_not_known(tmp_path: Path) -> None:
    """The ioctl means nothing there."""
    put(tmp_path / "sda", "")

    assert is_asleep("sda", blocks_folder=str(tmp_path / "none"), nodes_folder=str(tmp_path)) is None


def test_disks_of_this_machine_are_asked_without_error():
    """Virtual, loop and compressed memory disks know no such command; real ones may answer."""
    for name in os.listdir("/sys/block"):
        assert is_asleep(name) in (None, True, False)
        assert temperature(name) is None or -50 < (temperature(name) or 0) < 150


@pytest.mark.root
def test_loop_device_does_not_tell():
    """It takes the ioctl for a mistake; that is no error."""
    loops = [name for name in os.listdir("/sys/block") if name.startswith("loop")]

    assert [None] * len(loops) == [is_asleep(name) for name in loops]


@pytest.mark.parametrize("folder", ["device/hwmon/hwmon3", "device/hwmon1", "device/device/hwmon/hwmon0"])
def test_temperature_is_found_where_drivers_put_it(tmp_path: Path, folder: str) -> None:
    """SATA disks by drivetemp, NVMe by its own driver, older and newer kernels."""
    put(tmp_path / "sda" / folder / "temp1_input", "41850\n")

    assert 41 == temperature("sda", blocks_folder=str(tmp_path))


def test_temperature_of_a_disk_without_sensor_is_not_known(tmp_path: Path) -> None:
    """Nor is that of a disk that is not there."""
    put(tmp_path / "sda/device/model", "x")

    assert temperature("sda", blocks_folder=str(tmp_path)) is None
    assert temperature("sdb", blocks_folder=str(tmp_path)) is None


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(("hot", "is_allowed"), [(61, False), (60, True)])
def test_sleeping_disk_excuses_no_hot_one(tmp_path: Path, hot: int, is_allowed: bool) -> None:
    """A read that is due wakes a disk, but not while another one of the root is too hot."""
    put(tmp_path / "odd0/device/power/runtime_status", "suspended")
    put(tmp_path / "odd1/device/hwmon/hwmon0/temp1_input", f"{hot}000")
    pace = PaceConfig(max_temperature=60)

    assert is_allowed == may_read(["odd0", "odd1"], pace, must=True, blocks_folder=str(tmp_path))
    assert is_allowed == may_read(["odd0", "odd1"], replace(pace, wake=True), must=False, blocks_folder=str(tmp_path))
    assert not may_read(["odd0", "odd1"], pace, must=False, blocks_folder=str(tmp_path))
    assert may_read(["odd0", "odd1"], PaceConfig(), must=True, blocks_folder=str(tmp_path))


def test_sleeping_disk_is_not_asked_for_its_temperature(tmp_path: Path) -> None:
    """It might wake for it; what it said last, before it fell asleep, is no reason to wait either."""
    put(tmp_path / "odd0/device/power/runtime_status", "suspended")
    put(tmp_path / "odd0/device/hwmon/hwmon0/temp1_input", "90000")

    assert may_read(["odd0"], PaceConfig(max_temperature=60), must=True, blocks_folder=str(tmp_path))
