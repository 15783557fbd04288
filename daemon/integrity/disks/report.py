"""
The records of what a disk or an array reports of itself, and how a new reading follows the last one.

I1  A reading that failed changes no value: what was read last stays, with its time.
I2  A count knows its former value and when it changed, as long as the same disk reports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum


class DeviceKind(StrEnum):
    """What reports; stored."""

    DISK = "disk"
    MD = "md"
    BTRFS = "btrfs"
    ZFS = "zfs"


class Quantity(StrEnum):
    """What is counted; stored, and printed as JSON and metrics."""

    REALLOCATED = "reallocated_sectors"
    PENDING = "pending_sectors"
    UNCORRECTABLE = "uncorrectable_sectors"
    ERRORS = "uncorrectable_errors"
    TIMEOUTS = "command_timeouts"
    CRC = "crc_errors"
    USED_PERCENT = "used_percent"
    SPARE_SHORT_PERCENT = "spare_short_percent"  # below the threshold of the manufacturer
    CRITICAL = "critical_warning"  # bits, as NVMe defines them
    MISSING_DEVICES = "missing_devices"
    MISMATCHES = "mismatched_sectors"
    DEVICE_ERRORS = "device_errors"
    DATA_ERRORS = "data_errors"


class DeviceTrouble(StrEnum):
    """Why a device could not be read; stored."""

    NO_PROGRAM = "no_program"
    TOO_OLD = "too_old"  # smartctl before 7.0
    DENIED = "denied"
    NO_ANSWER = "no_answer"
    ASLEEP = "asleep"  # never stored: its former report stays
    UNSUPPORTED = "unsupported"  # a virtual disk, or a bridge that passes nothing on


@dataclass(frozen=True, slots=True)
class Count:
    """A count, its value before it last changed, and when the change was seen; None: no change was seen."""

    value: int
    before: int | None = None
    changed_at: int | None = None

    @property
    def has_grown(self) -> bool:
        return self.before is not None and self.value > self.before


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """
    What a disk or an array reports of itself.

    Args:
        name: in sysfs, such as "sda" or "md0"; the mount point of a btrfs, the name of a pool.
        label: the model and serial number of a disk, the level of an array.
        tried_at: when it was last asked, seconds UTC.
        read_at: when it last answered; None: never.
        is_healthy: the assessment of the device itself; None: it gives none.
        scrubbed_at: when an array last compared all of its data; None: unknown.
        state: of an array or pool, in its own words.
        trouble: why the last reading failed; None: it did not.
    """

    name: str
    kind: DeviceKind
    label: str
    tried_at: int
    read_at: int | None = None
    is_healthy: bool | None = None
    counts: Mapping[Quantity, Count] = field(default_factory=dict)
    temperature_c: int | None = None
    scrubbed_at: int | None = None
    state: str = ""
    trouble: DeviceTrouble | None = None

    @property
    def is_silent(self) -> bool:
        """Return whether the device never reported anything, and nobody can help that."""
        return self.read_at is None and self.trouble is DeviceTrouble.UNSUPPORTED


def follow(before: DeviceReport | None, now: DeviceReport) -> DeviceReport:
    """Return a new reading with what it changed since the last one of the same device (I1, I2)."""
    if before is None or before.kind is not now.kind:
        return now
    if now.trouble is not None:
        return replace(before, tried_at=now.tried_at, trouble=now.trouble)
    if before.label and before.label != now.label:
        return now  # another disk has the name now
    counts = {
        quantity: _follow_count(before.counts.get(quantity), count, now.tried_at)
        for quantity, count in now.counts.items()
    }
    return replace(now, counts=counts)


def _follow_count(before: Count | None, now: Count, at: int) -> Count:
    if before is None:
        return now
    return before if before.value == now.value else Count(now.value, before.value, at)
