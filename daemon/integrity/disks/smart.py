"""
Read the SMART values of a disk by smartctl (smartmontools 7.0 and later, which has --json).

Reading them needs CAP_SYS_RAWIO, and CAP_SYS_ADMIN for NVMe. The service has neither: a unit of systemd, which listens
on ``SOCKET`` and can do nothing else, runs smartctl for it. Where nobody listens, smartctl is run directly.

I1  A sleeping disk stays asleep: ``-n standby`` has smartctl ask the power mode first, which wakes no disk.
I2  Each answer is waited for with a deadline.
"""

from __future__ import annotations

import os
import shutil
import socket
import time

from integrity.disks.programs import (
    DEADLINE_S,
    Answer,
    ask_program,
    find_objects,
    get_number,
    get_text,
    get_value,
    parse_object,
)
from integrity.disks.report import Count, DeviceKind, DeviceReport, DeviceTrouble, Quantity
from integrity.files.block_devices import DISKS_FOLDER

SOCKET = "/run/integrity-smart.sock"
"""Where integrity-smart.socket listens: it takes the name of a disk and a type, and returns what smartctl prints."""

_ASLEEP_CODE = 129
"""What smartctl is to exit with for a sleeping disk. By itself it never does: bit 0, wrong usage, excludes bit 7."""

SMARTCTL_OPTIONS = ("--json", "-n", f"standby,{_ASLEEP_CODE}", "-i", "-H", "-A", "-l", "error")
"""Identity, assessment, attributes, and the error counters of SCSI; nothing that reads much. The unit has the same."""

_NO_PROGRAM_CODE = 127  # of a shell, and so of the unit
_BRIDGE_TYPE = "sat"
"""What to tell smartctl of a USB bridge that it does not know: nearly all pass ATA commands on in this way (SAT-4)."""

_ATA_ATTRIBUTES = {
    5: Quantity.REALLOCATED,
    187: Quantity.ERRORS,
    188: Quantity.TIMEOUTS,
    197: Quantity.PENDING,
    198: Quantity.UNCORRECTABLE,
    199: Quantity.CRC,
}
_RAW_MASKS = {188: 0xFFFF}  # Seagate puts three counters of 16 bits there, the total first
_RAW_MASK = 0xFFFFFFFF  # makers put other numbers into the upper bits
_TOO_HOT = 1 << 1  # bit of the critical warning: a hot disk needs air, and is not failing
_BUSES = ("/bus/scsi", "/class/nvme")
"""Where disks with SMART are; virtio, Xen, zram and cards have none."""


def read_smart(disk: str, now: int, *, socket_path: str = SOCKET, blocks_folder: str = DISKS_FOLDER) -> DeviceReport:
    """
    Read the SMART values of a disk.

    Args:
        disk: its name in sysfs, such as "sda".
        now: seconds UTC.
        socket_path: where to ask first.
        blocks_folder: /sys/block.
    """
    answer = _ask(disk, "", socket_path)
    if isinstance(answer, Answer) and "Unknown USB bridge" in answer.text:
        answer = _ask(disk, _BRIDGE_TYPE, socket_path)
    report = answer if isinstance(answer, DeviceTrouble) else parse_smart(disk, answer, now)
    if isinstance(report, DeviceReport):
        return report
    is_known = report in (DeviceTrouble.NO_ANSWER, DeviceTrouble.ASLEEP) or _may_have_smart(f"{blocks_folder}/{disk}")
    return DeviceReport(disk, DeviceKind.DISK, "", now, trouble=report if is_known else DeviceTrouble.UNSUPPORTED)


def _may_have_smart(node: str) -> bool:
    return os.path.realpath(f"{node}/device/subsystem").endswith(_BUSES)


def _ask(disk: str, device_type: str, socket_path: str) -> Answer | DeviceTrouble:
    """Have smartctl run by the unit if it listens, else run it."""
    try:
        answer = _ask_unit(disk, device_type, socket_path)
    except (FileNotFoundError, ConnectionRefusedError, PermissionError):
        answer = _run(disk, device_type)
    except OSError:
        return DeviceTrouble.NO_ANSWER
    if isinstance(answer, Answer) and answer.code == _NO_PROGRAM_CODE:
        return DeviceTrouble.NO_PROGRAM
    return answer


def _run(disk: str, device_type: str) -> Answer | DeviceTrouble:
    program = shutil.which("smartctl")
    if program is None:
        return DeviceTrouble.NO_PROGRAM
    options = ("-d", device_type) if device_type else ()
    argv = (program, *SMARTCTL_OPTIONS, *options, f"/dev/{disk.replace('!', '/')}")
    try:
        return ask_program(argv) or DeviceTrouble.NO_ANSWER
    except OSError:
        return DeviceTrouble.NO_PROGRAM


def _ask_unit(disk: str, device_type: str, socket_path: str) -> Answer | DeviceTrouble:
    """
    Ask the unit, which prints the exit code of smartctl on a line of its own, behind the JSON.

    Raises:
        OSError: nobody listens, or the answer did not come in time.
    """
    deadline = time.monotonic() + DEADLINE_S
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as unit:
        unit.settimeout(DEADLINE_S)
        unit.connect(socket_path)
        unit.sendall(f"{disk} {device_type}\n".encode())
        parts = []
        while part := unit.recv(1 << 16):
            parts.append(part)
            unit.settimeout(max(0.001, deadline - time.monotonic()))
    text, _, code = b"".join(parts).decode("utf-8", "replace").rstrip("\n").rpartition("\n")
    return Answer(text, int(code)) if code.isdecimal() else DeviceTrouble.NO_ANSWER


def parse_smart(disk: str, answer: Answer, now: int) -> DeviceReport | DeviceTrouble:
    """Parse what smartctl printed; a word if it tells nothing of the disk."""
    if answer.code == _ASLEEP_CODE:
        return DeviceTrouble.ASLEEP
    data = parse_object(answer.text)
    if data is None:
        return DeviceTrouble.TOO_OLD  # it prints its usage
    passed = get_value(data, "smart_status", "passed")
    counts = _find_ata_counts(data) | _find_scsi_counts(data) | _find_nvme_counts(data)
    if not counts and not isinstance(passed, bool):
        is_denied = any(denial in _find_messages(data) for denial in ("Permission denied", "Operation not permitted"))
        return DeviceTrouble.DENIED if is_denied else DeviceTrouble.UNSUPPORTED
    return DeviceReport(
        disk,
        DeviceKind.DISK,
        _make_label(data),
        tried_at=now,
        read_at=now,
        is_healthy=passed if isinstance(passed, bool) else None,
        counts={quantity: Count(value) for quantity, value in counts.items()},
        temperature_c=get_number(data, "temperature", "current"),
    )


def _find_messages(data: dict[str, object]) -> str:
    return " ".join(get_text(one, "string") for one in find_objects(data, "smartctl", "messages"))


def _make_label(data: dict[str, object]) -> str:
    model = get_text(data, "model_name") or get_text(data, "scsi_model_name")
    serial = get_text(data, "serial_number")
    return ", ".join(filter(None, (model, f"serial {serial}" if serial else "")))


def _find_ata_counts(data: dict[str, object]) -> dict[Quantity, int]:
    found = {}
    for attribute in find_objects(data, "ata_smart_attributes", "table"):
        number, raw = get_number(attribute, "id"), get_number(attribute, "raw", "value")
        if number in _ATA_ATTRIBUTES and raw is not None:
            found[_ATA_ATTRIBUTES[number]] = raw & _RAW_MASKS.get(number, _RAW_MASK)
    return found


def _find_scsi_counts(data: dict[str, object]) -> dict[Quantity, int]:
    errors = [
        get_number(data, "scsi_error_counter_log", direction, "total_uncorrected_errors")
        for direction in ("read", "write", "verify")
    ]
    known = [number for number in errors if number is not None]
    found = {
        Quantity.REALLOCATED: get_number(data, "scsi_grown_defect_list"),
        Quantity.PENDING: get_number(data, "scsi_pending_defects", "count"),
        Quantity.ERRORS: sum(known) if known else None,
    }
    return {quantity: value for quantity, value in found.items() if value is not None}


def _find_nvme_counts(data: dict[str, object]) -> dict[Quantity, int]:
    log = get_value(data, "nvme_smart_health_information_log")
    spare, threshold = get_number(log, "available_spare"), get_number(log, "available_spare_threshold")
    warning = get_number(log, "critical_warning")
    found = {
        Quantity.CRITICAL: None if warning is None else warning & ~_TOO_HOT,
        Quantity.ERRORS: get_number(log, "media_errors"),
        Quantity.USED_PERCENT: get_number(log, "percentage_used"),
        Quantity.SPARE_SHORT_PERCENT: None if spare is None or threshold is None else max(0, threshold - spare),
    }
    return {quantity: value for quantity, value in found.items() if value is not None}
