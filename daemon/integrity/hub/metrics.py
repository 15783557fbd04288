"""
Metrics of a hub in the format of Prometheus.

Labels name boxes, replica sets and kinds of findings; no files, and no text that a box chooses but the names of sets.

I1  However many sets boxes invent, the number of labels is bounded: the sets that are known longest have some.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest

from integrity import __version__
from integrity.errors import printable
from integrity.hub.fleet import BoxHealth
from integrity.web.metrics import gauge

MOST_SETS = 1000

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from integrity.hub.failing_parts import FailingPart
    from integrity.hub.fleet import BoxStatus
    from integrity.hub.open_findings import OpenFindings
    from integrity.hub.replica_sets import SetStatus


def write_hub_metrics(
    fleet: Sequence[BoxStatus],
    sets: Sequence[SetStatus],
    found: OpenFindings,
    failing: Sequence[FailingPart],
) -> bytes:
    """Write all metrics as text; revoked boxes have none."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_FleetCollector(fleet, sets, found, failing))
    return generate_latest(registry)


class _FleetCollector:
    """Collects the metrics once."""

    def __init__(
        self,
        fleet: Sequence[BoxStatus],
        sets: Sequence[SetStatus],
        found: OpenFindings,
        failing: Sequence[FailingPart],
    ) -> None:
        self._boxes = [one for one in fleet if one.health is not BoxHealth.REVOKED]
        self._sets = sets
        self._found = found
        self._failing = failing

    def collect(self) -> Iterator[Metric]:
        yield from _collect_boxes(self._boxes)
        yield from _collect_sets(self._sets)
        findings = gauge("hub_findings_open", "Open findings of the hub.", "kind")
        for kind, number in sorted(self._found.findings.items()):
            findings.add_metric([kind.value], number)
        yield findings
        yield gauge("hub_parts_failing", "Parts of the hub that do not work.", value=len(self._failing))
        lasts = gauge("hub_part_failing_seconds", "For how long a part of the hub has not worked.", "part")
        for one in self._failing:
            lasts.add_metric([one.name], one.lasts_s)
        yield lasts
        info = gauge("hub_build_info", "Version of integrity.", "version")
        info.add_metric([__version__], 1)
        yield info


def _collect_boxes(boxes: Iterable[BoxStatus]) -> Iterator[Metric]:
    health = gauge("hub_box_health", "1 for how the box is, 0 for all else.", "box", "health")
    silent = gauge("hub_box_silent", "1 if the box has not reported within silent_after.", "box")
    seen = gauge("hub_box_seen_timestamp_seconds", "When the box last reported.", "box")
    ahead = gauge("hub_box_clock_ahead_seconds", "Clock of the box minus that of the hub.", "box")
    files = gauge("hub_box_files", "Recorded files, as the box last reported.", "box")
    size = gauge("hub_box_bytes", "Bytes of recorded files, as the box last reported.", "box")
    oldest = gauge(
        "hub_box_oldest_verification_timestamp_seconds", "When the file verified longest ago was verified.", "box"
    )
    findings = gauge("hub_box_findings_open", "Open findings that the box reported.", "box")
    for one in boxes:
        name = one.box.name
        for word in BoxHealth:
            health.add_metric([name, word.value], one.health is word)
        silent.add_metric([name], one.is_silent)
        files.add_metric([name], one.files)
        size.add_metric([name], one.bytes)
        findings.add_metric([name], one.finding_count)
        for metric, value in ((seen, one.box.seen_at), (ahead, one.box.clock_ahead_s), (oldest, one.oldest_at)):
            if value is not None:
                metric.add_metric([name], value)
    yield from (health, silent, seen, ahead, files, size, oldest, findings)


def _collect_sets(sets: Sequence[SetStatus]) -> Iterator[Metric]:
    listed = sorted((one for one in sets if one.members), key=lambda one: (one.created_at, one.id))[:MOST_SETS]
    total = gauge(
        "hub_sets", "Replica sets; the thousand that were reported first have metrics of their own.", value=len(sets)
    )
    members = gauge("hub_set_members", "Folders that boxes report in the replica set.", "set")
    voted = gauge("hub_set_voted_timestamp_seconds", "When the members were last compared.", "set")
    took = gauge("hub_set_vote_seconds", "How long that took.", "set")
    findings = gauge("hub_set_findings_open", "Open findings about the replica set.", "set", "kind")
    for one in listed:
        name = printable(one.name)
        members.add_metric([name], len(one.members))
        if one.voted_at is not None:
            voted.add_metric([name], one.voted_at)
        if one.vote_ms is not None:
            took.add_metric([name], one.vote_ms / 1000)
        for kind, number in sorted(one.found.findings.items()):
            findings.add_metric([name, kind.value], number)
    yield from (total, members, voted, took, findings)
