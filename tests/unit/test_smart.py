"""What smartctl prints is read for ATA, SCSI and NVMe, and what it does not print is no error."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from integrity.disks.programs import ask_program
from integrity.disks.report import DeviceReport, DeviceTrouble, Quantity
from integrity.disks.smart import read_smart
from support.smartctl import ASLEEP, FakeSmartctl, ata, failed, nvme, scsi

NOW = 1_764_000_000
OLD_SMARTCTL = """smartctl 6.6 2017-11-05 r4594 (local build)

=======> UNRECOGNIZED OPTION: json
"""


@pytest.fixture
def smartctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSmartctl:
    """Put the program on the PATH."""
    fake = FakeSmartctl(tmp_path / "bin")
    monkeypatch.setenv("PATH", fake.environment["PATH"])
    return fake


@pytest.fixture
def blocks(tmp_path: Path) -> Path:
    """A /sys/block with a SATA disk, an NVMe disk, and the disk of a virtual machine."""
    for disk, subsystem in (("sda", "bus/scsi"), ("nvme0n1", "class/nvme"), ("vda", "bus/virtio")):
        (tmp_path / "block" / disk / "device").mkdir(parents=True)
        os.symlink(f"/sys/{subsystem}", tmp_path / "block" / disk / "device" / "subsystem")
    return tmp_path / "block"


def read(disk: str, blocks: Path) -> DeviceReport:
    return read_smart(disk, NOW, socket_path="/none/such", blocks_folder=str(blocks))


def values(report: DeviceReport) -> dict[str, int]:
    return {quantity.value: count.value for quantity, count in report.counts.items()}


def test_ata_disk(smartctl: FakeSmartctl, blocks: Path) -> None:
    """The five attributes that go before a failure, the errors of the link, and who the disk is."""
    smartctl.show("sda", ata(a5=3, a187=4, a188=(7 << 32) + 2, a197=8, a198=1, a199=12))
    report = read("sda", blocks)

    assert "WDC WD40EFRX-68N32N0, serial WD-TEST0001" == report.label
    assert {
        "reallocated_sectors": 3,
        "uncorrectable_errors": 4,
        "command_timeouts": 2,
        "pending_sectors": 8,
        "uncorrectable_sectors": 1,
        "crc_errors": 12,
    } == values(report)
    assert (True, 34, NOW, None) == (report.is_healthy, report.temperature_c, report.read_at, report.trouble)


def test_failing_disk_exits_with_bits_set(smartctl: FakeSmartctl, blocks: Path) -> None:
    """Its exit code tells of the disk, not of the program."""
    smartctl.show("sda", ata(passed=False), code=0x18)

    assert read("sda", blocks).is_healthy is False


def test_nvme_disk(smartctl: FakeSmartctl, blocks: Path) -> None:
    """Spare below the threshold is counted by how much; a warning of heat alone is none of failure."""
    smartctl.show("nvme0n1", nvme(available_spare=7, percentage_used=101, media_errors=5, critical_warning=0b11))
    report = read("nvme0n1", blocks)

    assert {
        "critical_warning": 1,
        "uncorrectable_errors": 5,
        "used_percent": 101,
        "spare_short_percent": 3,
    } == values(report)
    assert "Samsung SSD 980 1TB, serial S649TEST" == report.label


def test_sas_disk(smartctl: FakeSmartctl, blocks: Path) -> None:
    """Its grown defects are reallocated sectors."""
    smartctl.show("sda", scsi(grown=9, uncorrected=2))

    assert {"reallocated_sectors": 9, "uncorrectable_errors": 2} == values(read("sda", blocks))


def test_sleeping_disk_is_not_woken(smartctl: FakeSmartctl, blocks: Path) -> None:
    """The program is told to ask first, and what it exits with then."""
    smartctl.show("sda", "", code=ASLEEP)

    assert read("sda", blocks).trouble is DeviceTrouble.ASLEEP
    assert all(f"-n standby,{ASLEEP}" in call for call in smartctl.calls)


def test_unknown_usb_bridge_is_asked_again_with_its_usual_type(smartctl: FakeSmartctl, blocks: Path) -> None:
    """Nearly all of them pass ATA commands on."""
    smartctl.show("sda", failed("/dev/sda: Unknown USB bridge [0x152d:0x0583 (0x214)]"), code=1)
    smartctl.show("sda", ata(a197=1), is_typed=True)

    assert 1 == read("sda", blocks).counts[Quantity.PENDING].value
    assert "-d sat /dev/sda" in smartctl.calls[-1]


@pytest.mark.parametrize(
    ("sample", "code", "trouble"),
    [
        (failed("Smartctl open device: /dev/sda failed: Permission denied"), 2, DeviceTrouble.DENIED),
        (OLD_SMARTCTL, 1, DeviceTrouble.TOO_OLD),
        (failed("/dev/sda: Unable to detect device type"), 1, DeviceTrouble.UNSUPPORTED),
        ("[]", 0, DeviceTrouble.TOO_OLD),
        ('{"smart_status": [], "ata_smart_attributes": {"table": [1, {"id": "x"}]}}', 0, DeviceTrouble.UNSUPPORTED),
    ],
)
def test_what_is_no_answer(
    sample: dict[str, object] | str, code: int, trouble: DeviceTrouble, smartctl: FakeSmartctl, blocks: Path
) -> None:
    """A reason is recorded, and no value."""
    smartctl.show("sda", sample, code=code)
    report = read("sda", blocks)

    assert (trouble, None, {}) == (report.trouble, report.read_at, dict(report.counts))


@pytest.mark.parametrize(("disk", "trouble"), [("sda", DeviceTrouble.NO_PROGRAM), ("vda", DeviceTrouble.UNSUPPORTED)])
def test_missing_program_matters_only_for_disks_that_have_smart(
    disk: str, trouble: DeviceTrouble, blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual machine is told nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))

    assert read(disk, blocks).trouble is trouble


def test_program_that_hangs_is_left() -> None:
    """The deadline holds, also for what it started."""
    began = time.monotonic()

    assert ask_program(["sh", "-c", "sleep 60 & sleep 60"], deadline_s=0.2) is None
    assert time.monotonic() - began < 10
