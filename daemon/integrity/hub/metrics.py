"""
Metrics of a hub in the format of Prometheus.

Labels name boxes, replica sets and kinds of findings; no files, and no text that a box chooses but the names of sets.

I1  However many sets boxes invent, the number of labels is bounded: the sets that are known longest have some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

from prometheus_client.utils import floatToGoString

from integrity import __version__
from integrity.errors import printable
from integrity.hub.fleet import BoxHealth, BoxStatus, OpenFindings, SetStatus
from integrity.hub.work import FailingPart

MOST_SETS = 1000
_write_number = lru_cache(10_000)(floatToGoString)
_NAME = "\0"
"""In place of the name of a box, which has no such character."""

_Samples = Iterable[tuple[Any, ...]]
_BY_BOX = {
    "hub_box_silent": ("1 if the box has not reported within silent_after.", "is_silent"),
    "hub_box_seen_timestamp_seconds": ("When the box last reported.", "seen_at"),
    "hub_box_clock_ahead_seconds": ("Clock of the box minus that of the hub.", "clock_ahead_s"),
    "hub_box_files": ("Recorded files, as the box last reported.", "files"),
    "hub_box_bytes": ("Bytes of recorded files, as the box last reported.", "bytes"),
    "hub_box_oldest_verification_timestamp_seconds": (
        "When the file verified longest ago was verified.",
        "oldest_at",
    ),
    "hub_box_findings_open": ("Open findings that the box reported.", "finding_count"),
}


def _write_gauge(name: str, comment: str, labels: Sequence[str], samples: _Samples) -> Iterator[str]:
    """
    Write a metric. The library of Prometheus takes a second for the samples of ten thousand boxes.

    Args:
        labels: their names, in the order of the alphabet.
        samples: the value of each label, escaped, and the number; those with None are left out.
    """
    yield f"# HELP integrity_{name} {comment}\n# TYPE integrity_{name} gauge\n"
    yield from _write_samples(name, labels, samples)


def _write_samples(name: str, labels: Sequence[str], samples: _Samples) -> list[str]:
    pairs = ",".join(f'{label}="%s"' for label in labels)
    form = f"integrity_{name}{{{pairs}}} %s\n" if labels else f"integrity_{name} %s\n"
    return [form % (*texts, _write_number(number)) for *texts, number in samples if number is not None]


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def write_hub_metrics(
    boxes: Iterable[BoxStatus],
    sets: Sequence[SetStatus],
    set_count: int,
    found: OpenFindings,
    failing: Sequence[FailingPart],
) -> bytes:
    """
    Write all metrics as text; revoked boxes have none.

    Args:
        sets: those with metrics of their own; ``set_count``: of all.
    """
    parts = (
        *_write_boxes([(_escape(one.name), one) for one in boxes if one.health is not BoxHealth.REVOKED]),
        *_write_sets([(_escape(printable(one.name)), one) for one in sets], set_count),
        _write_gauge("hub_findings_open", "Open findings of the hub.", ("kind",), sorted(found.findings.items())),
        _write_gauge("hub_parts_failing", "Parts of the hub that do not work.", (), [(len(failing),)]),
        _write_gauge(
            *("hub_part_failing_seconds", "For how long a part of the hub has not worked."),
            *(("part",), ((one.name, one.lasts_s) for one in failing)),
        ),
        _write_gauge("hub_build_info", "Version of integrity.", ("version",), [(__version__, 1)]),
    )
    return "".join(line for part in parts for line in part).encode()


def _write_boxes(boxes: Sequence[tuple[str, BoxStatus]]) -> Iterator[Iterable[str]]:
    labels, comment = ("box", "health"), "1 for how the box is, 0 for all else."
    yield _write_gauge("hub_box_health", comment, labels, ())
    lines = {  # of one box: there are seven for each
        health: "".join(
            _write_samples("hub_box_health", labels, [(_NAME, word.value, word is health) for word in BoxHealth])
        )
        for health in BoxHealth
    }
    yield (lines[one.health].replace(_NAME, name) for name, one in boxes)
    names, statuses = [name for name, _ in boxes], [one for _, one in boxes]
    for metric, (comment, field) in _BY_BOX.items():
        yield _write_gauge(metric, comment, ("box",), zip(names, map(attrgetter(field), statuses), strict=True))


def _write_sets(sets: Sequence[tuple[str, SetStatus]], set_count: int) -> Iterator[Iterable[str]]:
    comment = "Replica sets; the thousand that were reported first have metrics of their own."
    yield _write_gauge("hub_sets", comment, (), [(set_count,)])
    numbers: tuple[tuple[str, str, Callable[[SetStatus], float | None]], ...] = (
        ("hub_set_members", "Folders that boxes report in the replica set.", lambda one: one.member_count),
        ("hub_set_voted_timestamp_seconds", "When the members were last compared.", lambda one: one.voted_at),
        (
            "hub_set_vote_seconds",
            "How long that took.",
            lambda one: None if one.vote_ms is None else one.vote_ms / 1000,
        ),
    )
    for metric, comment, get in numbers:
        yield _write_gauge(metric, comment, ("set",), [(name, get(one)) for name, one in sets])
    findings = ((kind, name, number) for name, one in sets for kind, number in sorted(one.found.findings.items()))
    yield _write_gauge("hub_set_findings_open", "Open findings about the replica set.", ("kind", "set"), findings)
