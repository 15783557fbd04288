"""
Metrics in the format of Prometheus, from the same status that ``integrity status`` shows.

Labels name watched folders, copies, channels, jobs, kinds of findings, and no files. A metric without a value, such as
the time of a run that never took place, has no sample.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from integrity import __version__
from integrity.catalog.own_files import SQLITE_SUFFIXES
from integrity.catalog.runs import find_last_runs, sum_read
from integrity.disks.signs import find_signs
from integrity.errors import show_path
from integrity.model import RootState
from integrity.views.sentence import find_complete_at

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.catalog.parity import Protection
    from integrity.jobs.status import RootStatus, Status
    from integrity.views.service import ServiceView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


_Samples = Iterable[tuple[Sequence[str], float | None]]

_OF_ROOTS: tuple[tuple[str, str, Callable[[RootStatus], float | None]], ...] = (
    ("root_files", "Recorded files.", lambda one: one.coverage.files),
    ("root_bytes", "Bytes of recorded files.", lambda one: one.coverage.bytes),
    (
        "oldest_verification_timestamp_seconds",
        "When the file verified longest ago was verified.",
        lambda one: one.coverage.oldest_at if one.coverage.is_oldest_known else None,
    ),
    ("promise_kept", "1 if every file was verified within verify_every.", lambda one: not one.coverage.overdue_files),
    ("overdue_bytes", "Bytes of files not verified within verify_every.", lambda one: one.coverage.overdue_bytes),
    (
        "root_active",
        "0 while the folder is paused or suspended, so nothing in it is checked.",
        lambda one: one.root.state is RootState.ACTIVE,
    ),
    ("damaged_files", "Damaged files; one may have several open findings.", lambda one: one.damaged_files),
)
_OF_PARITY: tuple[tuple[str, str, Callable[[Protection], float]], ...] = (
    ("parity_protected_bytes", "Bytes of files that parity protects.", lambda one: one.bytes),
    ("parity_bytes", "Size of the parity.", lambda one: one.parity_bytes),
    (
        "parity_least_percent",
        "How much of its data the weakest parity set can heal.",
        lambda one: one.least_percent,
    ),
    ("parity_oldest_timestamp_seconds", "When the oldest parity set was made.", lambda one: one.oldest_at),
    ("parity_damaged_sets", "Parity sets that are damaged themselves.", lambda one: one.damaged_sets),
)


class _Collected:
    """Metrics as a collector of prometheus_client."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = list(metrics)

    def collect(self) -> list[Metric]:
        return self._metrics


def write_metrics(catalog: Catalog, status: Status, live: ServiceView) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(_collect(catalog, status, live)))
    return generate_latest(registry)


def _collect(catalog: Catalog, status: Status, live: ServiceView) -> Iterator[Metric]:
    yield from _collect_roots(status.roots)
    yield from _collect_devices(status)
    yield from _collect_runs(catalog, status)
    yield from _collect_copies(status)
    failing = (([one.name], one.failing_since is not None) for one in status.alerts.channels)
    yield gauge("alert_channel_failing", "1 while alerts can't be sent by this channel.", ["channel"], failing)
    if status.hub is not None:
        hub, complete_at = status.hub, find_complete_at(status.hub, live)
        yield gauge("hub_failing", "1 while reports to the hub fail.", [], [([], hub.failing_since is not None)])
        comment = "Findings, runs, and actions that are not reported to the hub."
        yield gauge("hub_waiting", comment, [], [([], hub.waiting)])
        if complete_at is not None:
            comment = "When the hub last had everything."
            yield gauge("hub_complete_timestamp_seconds", comment, [], [([], complete_at)])
    size = _size_of(catalog.path)
    yield gauge("catalog_bytes", "Size of the catalog and its log on the disk.", [], [([], size)])
    yield gauge("service_up", "1 if the service of this catalog answers.", [], [([], live.state is not None)])
    comment = "1 if no service runs although one is installed or served this catalog before."
    yield gauge("service_missing", comment, [], [([], live.is_missing)])
    if live.state is not None:
        blind = (([show_path(one.root)], len(one.blind)) for one in live.state.watch)
        yield gauge("watch_blind", "Reasons why changes in this folder are noticed by scans only.", ["root"], blind)
    yield gauge("build_info", "Version of integrity.", ["version"], [([__version__], 1)])


def _collect_runs(catalog: Catalog, status: Status) -> Iterator[Metric]:
    paths = {one.root.id: show_path(one.root.path) for one in status.roots}
    with catalog.read() as connection:
        last, sums = find_last_runs(connection), sum_read(connection)
    ended = (([paths[root], job, end], at) for (root, job, end), at in last.items() if root in paths)
    labels = ["root", "job", "outcome"]
    yield gauge("run_last_timestamp_seconds", "When the last run with this outcome ended.", labels, ended)
    comment = "Bytes that recorded runs read from files."
    read = CounterMetricFamily("integrity_read_bytes", comment, labels=["root", "job"])
    for (root_id, job), size in sums.items():
        if root_id in paths:
            read.add_metric([paths[root_id], job], size)
    yield read


def _collect_roots(statuses: Iterable[RootStatus]) -> Iterator[Metric]:
    roots = [(show_path(one.root.path), one) for one in statuses]
    for name, comment, find in _OF_ROOTS:
        yield gauge(name, comment, ["root"], (([path], find(one)) for path, one in roots))
    ages = []
    for path, one in roots:
        within = 0
        for _, end, _, amount in one.coverage.histogram:
            within += amount
            ages.append(([path, "any" if end is None else f"{end}d"], within))
    comment = "Bytes of files last verified, or recorded if never verified, within so many days."
    yield gauge("verified_bytes", comment, ["root", "within"], ages)
    kinds = (([path, kind.value], number) for path, one in roots for kind, number in sorted(one.open_kinds.items()))
    yield gauge("findings_open", "Open findings.", ["root", "kind"], kinds)
    protected = [(path, one.protection) for path, one in roots if one.protection is not None]
    for name, comment, measure in _OF_PARITY:
        yield gauge(name, comment, ["root"], (([path], measure(one)) for path, one in protected))


def _collect_devices(status: Status) -> Iterator[Metric]:
    known = [(show_path(one.root.path), report) for one in status.roots for report in one.devices]
    devices = [([path, one.kind.value, one.name], one) for path, one in known if one.read_at is not None]
    labels = ["root", "kind", "device"]
    signs = ((here, bool(find_signs(one, status.at))) for here, one in devices)
    yield gauge("device_warning", "1 while this disk or array reports signs of failure.", labels, signs)
    counts = (([*here, name.value], each.value) for here, one in devices for name, each in sorted(one.counts.items()))
    yield gauge("device_count", "What this disk or array counts, as it last said.", [*labels, "quantity"], counts)
    heat = ((here, one.temperature_c) for here, one in devices)
    yield gauge("device_temperature_celsius", "Temperature when this disk was last read.", labels, heat)
    read = ((here, one.read_at) for here, one in devices)
    yield gauge("device_read_timestamp_seconds", "When this disk or array was last read.", labels, read)
    scrubbed = ((here, one.scrubbed_at) for here, one in devices)
    comment = "When this array last compared all of its data."
    yield gauge("device_scrub_timestamp_seconds", comment, labels, scrubbed)


def _collect_copies(status: Status) -> Iterator[Metric]:
    copies = [([show_path(one.root.path), one.name], one) for one in status.copies]
    labels = ["root", "copy"]
    compared = ((here, one.waits and one.waits.last_compared_at) for here, one in copies)
    yield gauge("copy_compared_timestamp_seconds", "When this copy was last compared.", labels, compared)
    late = ((here, one.is_overdue) for here, one in copies)
    yield gauge("copy_overdue", "1 if the copy was not compared within its verify_every.", labels, late)
    kinds = (([*here, kind.value], number) for here, one in copies for kind, number in sorted(one.open_kinds.items()))
    yield gauge("copy_findings_open", "Open findings about this copy.", [*labels, "kind"], kinds)


def gauge(name: str, comment: str, labels: Sequence[str], samples: _Samples) -> GaugeMetricFamily:
    """Return a metric that goes up and down, with a sample for each value that is known."""
    metric = GaugeMetricFamily(f"integrity_{name}", comment, labels=labels)
    for values, value in samples:
        if value is not None:
            metric.add_metric(values, value)
    return metric


def _size_of(catalog: bytes) -> int:
    size = 0
    for suffix in (b"", *SQLITE_SUFFIXES):
        with suppress(FileNotFoundError):
            size += os.stat(catalog + suffix).st_size
    return size
