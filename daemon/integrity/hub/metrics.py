"""
Metrics of a hub in the format of Prometheus.

Labels name boxes, replica sets and kinds of findings; no files, and no text that a box chooses but the names of sets.

I1  However many sets boxes invent, the number of labels is bounded: the sets that are known longest have some.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from prometheus_client.utils import floatToGoString

from integrity import __version__
from integrity.errors import printable
from integrity.hub.failing_parts import FailingPart
from integrity.hub.fleet import BoxHealth, BoxStatus
from integrity.hub.open_findings import OpenFindings
from integrity.hub.replica_sets import SetStatus

MOST_SETS = 1000


class _Gauge:
    """
    A metric that goes up and down. The library of Prometheus takes a second for the samples of ten thousand boxes.

    Args:
        labels: their names, in the order of the alphabet.

    Attributes:
        lines: its text so far.
    """

    def __init__(self, name: str, comment: str, *labels: str) -> None:
        name = f"integrity_{name}"
        self.lines = [f"# HELP {name} {comment}", f"# TYPE {name} gauge"]
        pairs = ",".join(f'{label}="%s"' for label in labels)
        self._form = f"{name}{{{pairs}}} %s" if labels else f"{name} %s"

    def add(self, *labels: str, value: float) -> _Gauge:
        """Add a sample. ``labels``: as ``_escape`` returns them."""
        self.lines.append(self._form % (*labels, _write_number(value)))
        return self


_write_number = lru_cache(10_000)(floatToGoString)


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def write_hub_metrics(
    fleet: Sequence[BoxStatus],
    sets: Sequence[SetStatus],
    found: OpenFindings,
    failing: Sequence[FailingPart],
) -> bytes:
    """Write all metrics as text; revoked boxes have none."""
    findings = _Gauge("hub_findings_open", "Open findings of the hub.", "kind")
    for kind, number in sorted(found.findings.items()):
        findings.add(kind.value, value=number)
    lasts = _Gauge("hub_part_failing_seconds", "For how long a part of the hub has not worked.", "part")
    for one in failing:
        lasts.add(one.name, value=one.lasts_s)
    gauges = (
        *_collect_boxes(one for one in fleet if one.health is not BoxHealth.REVOKED),
        *_collect_sets(sets),
        findings,
        _Gauge("hub_parts_failing", "Parts of the hub that do not work.").add(value=len(failing)),
        lasts,
        _Gauge("hub_build_info", "Version of integrity.", "version").add(__version__, value=1),
    )
    return "".join(f"{line}\n" for one in gauges for line in one.lines).encode()


def _collect_boxes(boxes: Iterable[BoxStatus]) -> Iterator[_Gauge]:
    health = _Gauge("hub_box_health", "1 for how the box is, 0 for all else.", "box", "health")
    silent = _Gauge("hub_box_silent", "1 if the box has not reported within silent_after.", "box")
    seen = _Gauge("hub_box_seen_timestamp_seconds", "When the box last reported.", "box")
    ahead = _Gauge("hub_box_clock_ahead_seconds", "Clock of the box minus that of the hub.", "box")
    files = _Gauge("hub_box_files", "Recorded files, as the box last reported.", "box")
    size = _Gauge("hub_box_bytes", "Bytes of recorded files, as the box last reported.", "box")
    oldest = _Gauge(
        "hub_box_oldest_verification_timestamp_seconds", "When the file verified longest ago was verified.", "box"
    )
    findings = _Gauge("hub_box_findings_open", "Open findings that the box reported.", "box")
    for one in boxes:
        name = _escape(one.box.name)
        for word in BoxHealth:
            health.add(name, word.value, value=one.health is word)
        silent.add(name, value=one.is_silent)
        files.add(name, value=one.files)
        size.add(name, value=one.bytes)
        findings.add(name, value=one.finding_count)
        for metric, value in ((seen, one.box.seen_at), (ahead, one.box.clock_ahead_s), (oldest, one.oldest_at)):
            if value is not None:
                metric.add(name, value=value)
    yield from (health, silent, seen, ahead, files, size, oldest, findings)


def _collect_sets(sets: Sequence[SetStatus]) -> Iterator[_Gauge]:
    listed = sorted((one for one in sets if one.members), key=lambda one: (one.created_at, one.id))[:MOST_SETS]
    total = _Gauge("hub_sets", "Replica sets; the thousand that were reported first have metrics of their own.")
    total.add(value=len(sets))
    members = _Gauge("hub_set_members", "Folders that boxes report in the replica set.", "set")
    voted = _Gauge("hub_set_voted_timestamp_seconds", "When the members were last compared.", "set")
    took = _Gauge("hub_set_vote_seconds", "How long that took.", "set")
    findings = _Gauge("hub_set_findings_open", "Open findings about the replica set.", "kind", "set")
    for one in listed:
        name = _escape(printable(one.name))
        members.add(name, value=len(one.members))
        if one.voted_at is not None:
            voted.add(name, value=one.voted_at)
        if one.vote_ms is not None:
            took.add(name, value=one.vote_ms / 1000)
        for kind, number in sorted(one.found.findings.items()):
            findings.add(kind.value, name, value=number)
    yield from (total, members, voted, took, findings)
