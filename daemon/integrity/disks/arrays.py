"""
Read the state of arrays: md and btrfs from sysfs, ZFS from procfs and `zpool status`.

Reading sysfs asks the kernel and no disk. When btrfs was last scrubbed stands in a file that its tools keep; md and
ZFS without ``zpool status --json`` (before OpenZFS 2.3) keep no such time where it can be read.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from integrity.disks.programs import ask_program, get_number, get_text, get_value, parse_object
from integrity.disks.report import Count, DeviceKind, DeviceReport, DeviceTrouble, Quantity
from integrity.files.block_devices import list_attributes, read_attribute
from integrity.files.mounts import Mount, find_uuid

BTRFS_STATUS_FOLDER = "/var/lib/btrfs"
"""Where `btrfs scrub` keeps when it ran, readable for root and for the service."""

_ZFS_FOLDER = "/proc/spl/kstat/zfs"
_VDEV_ERRORS = ("read_errors", "write_errors", "checksum_errors")
_STARTED = re.compile(r"\|t_start:(\d+)")


class ArrayReading(NamedTuple):
    """What an array reports, and the device nodes of its members, where sysfs does not show them."""

    report: DeviceReport
    members: tuple[str, ...] = ()


def read_arrays(fd: int, mount: Mount, stack: Sequence[str], now: int) -> list[ArrayReading]:
    """
    Read the state of each array below a file system.

    Args:
        fd: any open file or folder of it.
        stack: the sysfs folders of all block devices below it.
        now: seconds UTC.
    """
    found = [ArrayReading(read_md(node, now)) for node in stack if os.path.isdir(f"{node}/md")]
    if mount.fs_type == "btrfs" and (value := find_uuid(fd, mount)) is not None:
        found.append(ArrayReading(read_btrfs(f"/sys/fs/btrfs/{value}", os.fsdecode(mount.mount_point), now)))
    if mount.fs_type == "zfs":
        found.append(read_zfs(mount.source.partition("/")[0], now))
    return found


def read_md(node: str, now: int) -> DeviceReport:
    """Read the state of an md array; ``node``: its sysfs folder. Arrays without redundancy have no counts."""
    counts = {
        Quantity.MISSING_DEVICES: _read_number(f"{node}/md/degraded"),
        Quantity.MISMATCHES: _read_number(f"{node}/md/mismatch_cnt"),
    }
    level, disks = read_attribute(f"{node}/md/level") or "", read_attribute(f"{node}/md/raid_disks") or "?"
    return DeviceReport(
        os.path.basename(node),
        DeviceKind.MD,
        f"{level}, {disks} devices",
        tried_at=now,
        read_at=now,
        counts={quantity: Count(value) for quantity, value in counts.items() if value is not None},
        state=read_attribute(f"{node}/md/array_state") or "",
    )


def read_btrfs(node: str, mount_point: str, now: int, *, status_folder: str = BTRFS_STATUS_FOLDER) -> DeviceReport:
    """
    Read the error counters of a btrfs's devices, which is missing, and when it was scrubbed.

    Args:
        mount_point: its name here, as its tools want it.
        now: seconds UTC.
        status_folder: what `btrfs scrub` keeps.
    """
    devices = [f"{node}/devinfo/{number}" for number in list_attributes(f"{node}/devinfo")]
    missing = [_read_number(f"{device}/missing") for device in devices]
    errors = [number for device in devices for number in _read_error_stats(f"{device}/error_stats")]
    counts = {Quantity.MISSING_DEVICES: Count(sum(number or 0 for number in missing))} if devices else {}
    if errors:
        counts[Quantity.DEVICE_ERRORS] = Count(sum(errors))
    return DeviceReport(
        mount_point,
        DeviceKind.BTRFS,
        "1 device" if len(devices) == 1 else f"{len(devices)} devices",
        tried_at=now,
        read_at=now,
        counts=counts,
        scrubbed_at=_read_scrub_time(f"{status_folder}/scrub.status.{os.path.basename(node)}"),
    )


def read_zfs(pool: str, now: int, *, folder: str = _ZFS_FOLDER) -> ArrayReading:
    """Read the state of a ZFS pool from the kernel, and its errors, members and last scrub from `zpool`, if it can."""
    state = read_attribute(f"{folder}/{pool}/state") or ""
    report = DeviceReport(
        pool,
        DeviceKind.ZFS,
        "",
        tried_at=now,
        read_at=now if state else None,
        is_healthy=state == "ONLINE" if state else None,
        state=state.lower(),
        trouble=None if state else DeviceTrouble.UNSUPPORTED,
    )
    program = shutil.which("zpool")
    answer = None if program is None else _ask_zpool(program, pool)
    return ArrayReading(report) if answer is None else parse_zpool(answer, report)


def _ask_zpool(program: str, pool: str) -> str | None:
    try:
        answer = ask_program((program, "status", "--json", "--json-int", pool))
    except OSError:
        return None
    return None if answer is None else answer.text


def parse_zpool(text: str, report: DeviceReport) -> ArrayReading:
    """Add what `zpool status --json --json-int` prints to the report of a pool."""
    pool = get_value(parse_object(text), "pools", report.name)
    state = get_text(pool, "state")
    if not state:
        return ArrayReading(report)
    scan, leaves = get_value(pool, "scan_stats"), list(_find_leaves(get_value(pool, "vdevs")))
    is_scrub = get_text(scan, "function") == "SCRUB" and get_text(scan, "state") == "FINISHED"
    report = DeviceReport(
        report.name,
        DeviceKind.ZFS,
        report.label,
        tried_at=report.tried_at,
        read_at=report.tried_at,
        is_healthy=state == "ONLINE",
        counts={
            Quantity.DATA_ERRORS: Count(get_number(pool, "error_count") or 0),
            Quantity.MISSING_DEVICES: Count(sum(get_text(leaf, "state") != "ONLINE" for leaf in leaves)),
            Quantity.DEVICE_ERRORS: Count(sum(get_number(leaf, name) or 0 for leaf in leaves for name in _VDEV_ERRORS)),
        },
        scrubbed_at=get_number(scan, "end_time") if is_scrub else None,
        state=state.lower(),
    )
    return ArrayReading(report, tuple(filter(None, (get_text(leaf, "path") for leaf in leaves))))


def _find_leaves(vdevs: object) -> Iterator[object]:
    """Yield the devices of a pool: the pool may be "ONLINE" while one of them is "FAULTED" and a spare stands in."""
    for vdev in vdevs.values() if isinstance(vdevs, dict) else ():
        inner = get_value(vdev, "vdevs")
        if inner is None:
            yield vdev
        else:
            yield from _find_leaves(inner)


def _read_number(path: str) -> int | None:
    text = read_attribute(path) or ""
    return int(text) if text.isdecimal() else None


def _read_error_stats(path: str) -> Iterator[int]:
    """Yield the counters of a device: a line "corruption_errs 3" for each."""
    for line in (read_attribute(path) or "").splitlines():
        number = line.rpartition(" ")[2]
        if number.isdecimal():
            yield int(number)


def _read_scrub_time(path: str) -> int | None:
    """Return when the last scrub began, if it compared everything: a canceled one has "finished", too."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            lines = [line for line in file.read().splitlines() if "|" in line]
    except OSError:
        return None  # never scrubbed, or not for us to read
    times = [int(found[1]) for line in lines if (found := _STARTED.search(line))]
    is_complete = all("|canceled:0|finished:1" in line for line in lines)
    return max(times) if is_complete and times else None
