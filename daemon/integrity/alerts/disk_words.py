"""Sentences for mails about damage: what the disks below the damaged files report of themselves."""

from __future__ import annotations

from collections.abc import Iterable

from integrity.catalog.connection import Connection
from integrity.catalog.root_meta import find_reports
from integrity.catalog.roots import find_roots
from integrity.disks.signs import describe_for_damage
from integrity.kinds import HARDWARE_MATTERS
from integrity.model import Finding


def describe_disks(c: Connection, findings: Iterable[Finding], now: int) -> list[str]:
    """Return a sentence for each disk and array below the roots with damage, as it was last read."""
    damaged = {finding.root for finding in findings if finding.kind in HARDWARE_MATTERS}
    reports = [report for root in find_roots(c) if root.path in damaged for report in find_reports(c, root)]
    return list(dict.fromkeys(describe_for_damage(reports, now)))
