"""
Decide which of the values that a disk or an array reports are signs of failure, and write them as sentences.

Of the attributes of ATA disks, five go before a failure: 5, 187, 188, 197, 198 (Backblaze, "What SMART Stats Tell Us
About Hard Drives", 2016: 77 % of their failed disks had one of them above zero, 4 % of the others). The raw values of
the other attributes mean different things from maker to maker and are not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple

from integrity import program
from integrity.disks.report import Count, DeviceKind, DeviceReport, DeviceTrouble, Quantity
from integrity.errors import printable

RECENT_S = 14 * 86_400
"""A count that stood still for so long grows no more. Our own choice: two rounds of a weekly habit."""


class Remedy(Enum):
    """What to do about a sign; the worst first."""

    REPLACE = "copy what you need from it to another disk, then replace it"
    ARRAY = "find the device that failed and replace it"
    RESTORE = "restore the damaged files from a backup, and check the disks"
    CHECK = "let it repair what differs, and check its disks and cables"
    CABLE = "replace its cable or its slot, and check the power supply"
    WATCH = "plan to replace it"


class _Rule(NamedTuple):
    """
    When a count is a sign.

    Attributes:
        one: it in words, if the count is 1; ``{n}`` stands for the count.
        many: it in words, if it is not.
        at_least: the value from which on it is one; None: growth is one, whatever the value.
    """

    quantity: Quantity
    one: str
    many: str
    at_least: int | None
    remedy: Remedy


_SPARE = "spare capacity {n} % below its threshold"
_USED = "{n} % of its rated life used"
_RULES = (
    # 197 and SCSI's list: sectors that could not be read and wait for a write. Each is a hole in some file.
    _Rule(Quantity.PENDING, "{n} pending sector", "{n} pending sectors", 1, Remedy.REPLACE),
    # 198: what the disk's own tests could not read.
    _Rule(Quantity.UNCORRECTABLE, "{n} uncorrectable sector", "{n} uncorrectable sectors", 1, Remedy.REPLACE),
    # 5 and SCSI's grown defects: old disks live with a few, but a number that grows does not stop (Backblaze).
    _Rule(Quantity.REALLOCATED, "{n} reallocated sector", "{n} reallocated sectors", None, Remedy.REPLACE),
    # 187, SCSI's uncorrected errors, NVMe's media errors: counted for life, so that only growth is news.
    _Rule(Quantity.ERRORS, "{n} uncorrectable error", "{n} uncorrectable errors", None, Remedy.REPLACE),
    # NVMe Base Specification, SMART / Health Information: any bit asks for attention at once.
    _Rule(Quantity.CRITICAL, "{n} critical warning", "{n} critical warnings", 1, Remedy.REPLACE),
    _Rule(Quantity.SPARE_SHORT_PERCENT, _SPARE, _SPARE, 1, Remedy.REPLACE),
    _Rule(Quantity.MISSING_DEVICES, "{n} missing device", "{n} missing devices", 1, Remedy.ARRAY),
    _Rule(Quantity.DATA_ERRORS, "{n} data error", "{n} data errors", 1, Remedy.RESTORE),
    _Rule(Quantity.DEVICE_ERRORS, "{n} device error", "{n} device errors", None, Remedy.CHECK),
    # md(4): copies or parity that differed at the last check.
    _Rule(Quantity.MISMATCHES, "{n} mismatched sector", "{n} mismatched sectors", 1, Remedy.CHECK),
    # 199: between disk and controller, where the link detects each error and sends the data again.
    _Rule(Quantity.CRC, "{n} CRC error of the link", "{n} CRC errors of the link", None, Remedy.CABLE),
    # 188: commands that were given up; mostly power or the link.
    _Rule(Quantity.TIMEOUTS, "{n} command timeout", "{n} command timeouts", None, Remedy.CABLE),
    # NVMe: the maker's estimate of the life that is used up; it may exceed 100.
    _Rule(Quantity.USED_PERCENT, _USED, _USED, 100, Remedy.WATCH),
)

_CRITICAL_BITS = (
    "spare capacity below its threshold",
    "temperature outside of its limits",  # never asked: see smart.py
    "reliability degraded",
    "read-only",
    "backup of its cache failed",
    "persistent memory unreliable",
)
_NOUNS = {
    DeviceKind.DISK: "disk",
    DeviceKind.MD: "array",
    DeviceKind.BTRFS: "btrfs",
    DeviceKind.ZFS: "pool",
}
_CABLE_OR_MEMORY = "check its cable, and the memory (memtest86+)"
_TROUBLES = {
    DeviceTrouble.NO_PROGRAM: "smartctl is not installed: install the package smartmontools",
    DeviceTrouble.TOO_OLD: "smartctl is older than 7.0 and has no --json: upgrade the package smartmontools",
    DeviceTrouble.DENIED: "only root may ask it; the service of the system may, after:  {install}",
    DeviceTrouble.NO_ANSWER: "it did not answer: check its cable and `dmesg`",
    DeviceTrouble.UNSUPPORTED: "it reports no values any more",
}


class DeviceSign(NamedTuple):
    """
    A sign of failure.

    Attributes:
        quantity: what is counted; None: the device's own assessment.
        words: it as a part of a sentence: "8 pending sectors (5 until 2026-11-20)".
    """

    quantity: Quantity | None
    value: int
    words: str
    remedy: Remedy


def find_signs(report: DeviceReport, now: int) -> list[DeviceSign]:
    """Return the signs of failure in what a device reports, the gravest first."""
    signs = []
    if report.is_healthy is False:
        remedy = Remedy.REPLACE if report.kind is DeviceKind.DISK else Remedy.ARRAY
        signs.append(DeviceSign(None, 1, _say_failed(report), remedy))
    for rule in _RULES:
        count = report.counts.get(rule.quantity)
        if count is not None and _is_sign(rule, count, now):
            signs.append(DeviceSign(rule.quantity, count.value, _say_count(rule, count), rule.remedy))
    return signs


def _is_sign(rule: _Rule, count: Count, now: int) -> bool:
    if rule.at_least is not None:
        return count.value >= rule.at_least
    return count.has_grown and now - (count.changed_at or 0) < RECENT_S


def _say_failed(report: DeviceReport) -> str:
    if report.kind is DeviceKind.DISK:
        return "that its self-assessment FAILED"
    return f"the state {printable(report.state).upper()}"


def _say_count(rule: _Rule, count: Count) -> str:
    text = (rule.one if count.value == 1 else rule.many).format(n=f"{count.value:,}")
    if rule.quantity is Quantity.CRITICAL:
        bits = [words for bit, words in enumerate(_CRITICAL_BITS) if count.value >> bit & 1]
        return f"a critical warning ({', '.join(bits) or count.value})"
    if count.before is None or count.changed_at is None:
        return text
    return f"{text} ({count.before:,} until {datetime.fromtimestamp(count.changed_at, UTC):%Y-%m-%d})"


def name_device(report: DeviceReport) -> str:
    """Return how a device is called in a sentence: "disk sda (WDC WD40EFRX, serial WD-1234)"."""
    label = f" ({printable(report.label)})" if report.label else ""
    return f"{_NOUNS[report.kind]} {printable(report.name)}{label}"


def describe_signs(report: DeviceReport, signs: Sequence[DeviceSign]) -> str:
    """Return what a device reports, as a sentence without its end; ``signs``: at least one."""
    found = [sign.words for sign in signs]
    words = f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else found[0]
    return f"The {name_device(report)} reports {words}"


def find_remedy(signs: Iterable[DeviceSign]) -> Remedy:
    """Return what to do about the gravest of some signs, which covers the others."""
    return min((sign.remedy for sign in signs), key=list(Remedy).index)


def describe_for_damage(reports: Iterable[DeviceReport], now: int) -> list[str]:
    """Return a sentence for each device below damaged files: what it reports, or that it is not the cause it knows."""
    sentences = []
    for report in reports:
        signs = find_signs(report, now)
        if signs:
            sentences.append(f"{describe_signs(report, signs)}: {find_remedy(signs).value}.")
        elif report.read_at is not None and report.kind is DeviceKind.DISK:
            sentences.append(f"The {name_device(report)} reports no problem: {_CABLE_OR_MEMORY}.")
    return sentences


def describe_trouble(report: DeviceReport) -> str:
    """Return why a device could not be read; empty if it could."""
    if report.trouble is None:
        return ""
    return _TROUBLES[report.trouble].format(install=program.command("service install"))


def describe_values(report: DeviceReport, now: int) -> str:
    """Return what a device reports, in a few words; empty if it never answered."""
    if report.read_at is None:
        return ""
    parts = [sign.words.removeprefix("that ") for sign in find_signs(report, now)] or ["no problem reported"]
    parts += [printable(report.state)] if report.state and report.is_healthy is not False else []
    parts += [f"{report.temperature_c} °C"] if report.temperature_c is not None else []
    parts += [f"scrubbed {datetime.fromtimestamp(report.scrubbed_at, UTC):%Y-%m-%d}"] if report.scrubbed_at else []
    return ", ".join(parts)
