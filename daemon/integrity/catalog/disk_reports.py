"""
What the disks and arrays below each root last reported.

Each has a row in ``meta``, key ``disk/ROOT_ID/KIND:NAME``. A disk below several roots has a row for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from integrity.catalog.db import Connection
from integrity.catalog.root_meta import RootMeta
from integrity.catalog.roots import RootRecord

if TYPE_CHECKING:
    from integrity.disks.report import DeviceReport

_REPORTS = RootMeta("disk")


def find_reports(c: Connection, root: RootRecord) -> list[DeviceReport]:
    """Return the last report of each disk and array below a root."""
    found = (_read(value) for _, value in _REPORTS.find(c, root))
    return [report for report in found if report is not None]


def replace_reports(c: Connection, root: RootRecord, reports: Sequence[DeviceReport]) -> None:
    """Record the reports of all disks and arrays below a root; the rows of others go."""
    from dataclasses import asdict

    for row_id, _ in _REPORTS.find(c, root):
        _REPORTS.drop(c, root.id, row_id)
    for report in reports:
        _REPORTS.save(c, root, f"{report.kind.value}:{report.name}", asdict(report))


def _read(value: dict[str, Any]) -> DeviceReport | None:
    """Parse a row; None if another version wrote it."""
    from integrity.disks.report import Count, DeviceKind, DeviceReport, DeviceTrouble, Quantity

    try:
        counts = {Quantity(name): Count(**count) for name, count in value["counts"].items()}
        trouble = None if value["trouble"] is None else DeviceTrouble(value["trouble"])
        known = {name: value[name] for name in DeviceReport.__slots__}
        return DeviceReport(**known | {"kind": DeviceKind(value["kind"]), "counts": counts, "trouble": trouble})
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
