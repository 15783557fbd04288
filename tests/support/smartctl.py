"""
A ``smartctl`` for tests: a real program on the PATH that prints what a disk of the test's choice reports.

The samples are shortened from what smartctl 7.3 prints; names and numbers are made up.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

ASLEEP = 129
"""What the program asks smartctl to exit with for a sleeping disk."""

_SCRIPT = """#!/bin/sh
echo "$*" >>'{folder}/calls'
for last; do :; done
name=${{last##*/}}
case " $* " in *' -d '*) name=$name-typed ;; esac
[ -f '{folder}'/"$name".json ] || name=unknown
cat '{folder}'/"$name".json
exit "$(cat '{folder}'/"$name".code)"
"""
_ATTRIBUTES = {
    5: "Reallocated_Sector_Ct",
    9: "Power_On_Hours",
    187: "Reported_Uncorrect",
    188: "Command_Timeout",
    197: "Current_Pending_Sector",
    198: "Offline_Uncorrectable",
    199: "UDMA_CRC_Error_Count",
}

Sample = dict[str, object]


def ata(*, passed: bool = True, serial: str = "WD-TEST0001", **raw: int) -> Sample:
    """Return what an ATA disk reports; ``raw``: values of attributes, as ``a197=8``."""
    values = {number: raw.get(f"a{number}", 0) for number in _ATTRIBUTES}
    table = [
        {"id": number, "name": name, "value": 100, "thresh": 0, "raw": {"value": values[number]}}
        for number, name in _ATTRIBUTES.items()
    ]
    return {
        "device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
        "model_name": "WDC WD40EFRX-68N32N0",
        "serial_number": serial,
        "smart_status": {"passed": passed},
        "ata_smart_attributes": {"revision": 16, "table": table},
        "temperature": {"current": 34},
    }


def nvme(**log: int) -> Sample:
    """Return what an NVMe disk reports; ``log``: values of its health log."""
    usual = {"critical_warning": 0, "available_spare": 100, "available_spare_threshold": 10}
    return {
        "device": {"name": "/dev/nvme0n1", "type": "nvme", "protocol": "NVMe"},
        "model_name": "Samsung SSD 980 1TB",
        "serial_number": "S649TEST",
        "smart_status": {"passed": not log.get("critical_warning"), "nvme": {"value": log.get("critical_warning", 0)}},
        "nvme_smart_health_information_log": {**usual, "percentage_used": 3, "media_errors": 0, **log},
        "temperature": {"current": 41},
    }


def scsi(*, grown: int = 0, uncorrected: int = 0) -> Sample:
    """Return what a SAS disk reports."""
    errors = {"total_uncorrected_errors": uncorrected}
    return {
        "device": {"name": "/dev/sdb", "type": "scsi", "protocol": "SCSI"},
        "scsi_model_name": "SEAGATE ST4000NM0023",
        "serial_number": "Z1ZTEST",
        "smart_status": {"passed": True},
        "scsi_grown_defect_list": grown,
        "scsi_error_counter_log": {"read": errors, "write": {"total_uncorrected_errors": 0}},
        "temperature": {"current": 30},
    }


def failed(text: str) -> Sample:
    """Return what smartctl prints if it can't query a disk."""
    return {"smartctl": {"messages": [{"string": text, "severity": "error"}], "exit_status": 2}}


class FakeSmartctl:
    """
    The program, which knows no disk at first.

    Attributes:
        environment: with which a program finds it before all others.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._path = folder / "smartctl"
        self._path.write_text(_SCRIPT.format(folder=folder))
        self._path.chmod(0o755)
        self.show("unknown", failed("/dev/unknown: Unable to detect device type"), code=1)
        self.environment = {"PATH": f"{folder}:{os.environ['PATH']}"}

    def show(self, disk: str, sample: Mapping[str, object] | str, *, code: int = 0, is_typed: bool = False) -> None:
        """Let a disk report something; ``is_typed``: only if its type is given by ``-d``."""
        name = f"{disk}-typed" if is_typed else disk
        (self._folder / f"{name}.code").write_text(str(code))
        (self._folder / f"{name}.json").write_text(sample if isinstance(sample, str) else json.dumps(sample))

    def replace(self, script: str) -> None:
        """Become another program."""
        self._path.write_text(script)

    @property
    def calls(self) -> list[str]:
        """The arguments of each call so far."""
        calls = self._folder / "calls"
        return calls.read_text().splitlines() if calls.exists() else []
