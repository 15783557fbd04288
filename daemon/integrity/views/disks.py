"""What the disks and arrays below a root report of themselves, as commands and pages show it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from integrity.disks.signs import describe_trouble, describe_values, find_signs, name_device
from integrity.views.objects import JsonObject, iso_time
from integrity.views.text import local_time

if TYPE_CHECKING:
    from integrity.disks.report import DeviceReport
    from integrity.views.text import Styler


def describe_device(report: DeviceReport, now: int, styler: Styler) -> str:
    """Return in a line what a device reports, and why it could not be read; empty if it never reports anything."""
    if report.is_silent:
        return ""
    values, trouble = describe_values(report, now), describe_trouble(report)
    shown = styler.style(values, "yellow") if find_signs(report, now) else values
    read = "" if report.read_at is None else f"{shown} (read {local_time(report.read_at)})"
    failed = f"not read{' since' if read else ''}: {trouble}" if trouble else ""
    return f"{name_device(report)}: {'; '.join(filter(None, (read, failed)))}"


def describe_devices(reports: tuple[DeviceReport, ...], now: int, styler: Styler) -> Iterator[str]:
    """Write a line for each device that reports anything, or should."""
    for report in reports:
        line = describe_device(report, now, styler)
        if line:
            yield line


def device_object(report: DeviceReport, now: int) -> JsonObject:
    """Make the object of a device."""
    return {
        "name": report.name,
        "kind": report.kind.value,
        "label": report.label,
        "is_healthy": report.is_healthy,
        "state": report.state or None,
        "counts": {quantity.value: count.value for quantity, count in sorted(report.counts.items())},
        "signs": [sign.words for sign in find_signs(report, now)],
        "temperature_c": report.temperature_c,
        "scrubbed_at": iso_time(report.scrubbed_at),
        "read_at": iso_time(report.read_at),
        "tried_at": iso_time(report.tried_at),
        "trouble": None if report.trouble is None else report.trouble.value,
    }
