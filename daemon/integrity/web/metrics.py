"""
Metrics in the format of Prometheus, from the same status that ``integrity status`` shows.

Labels name watched folders, copies, channels, jobs, kinds of findings, and no files. A metric without a value, such as
the time of a run that never took place, has no sample.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
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
    from integrity.jobs.status import RootStatus, Status
    from integrity.views.service import ServiceView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def write_metrics(catalog: Catalog, status: Status, live: ServiceView) -> bytes:
    """Write all metrics as text."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(catalog, status, live))
    return generate_latest(registry)


class _Collector:
    """Collects the metrics once."""

    def __init__(self, catalog: Catalog, status: Status, live: ServiceView) -> None:
        self._catalog = catalog
        self._status = status
        self._live = live

    def collect(self) -> Iterator[Metric]:
        yield from _collect_roots(self._status.roots)
        yield from _collect_devices(self._status)
        yield from self._collect_runs()
        yield from _collect_copies(self._status)
        failing = gauge("alert_channel_failing", "1 while alerts can't be sent by this channel.", "channel")
        for channel in self._status.alerts.channels:
            failing.add_metric([channel.name], channel.failing_since is not None)
        yield failing
        yield from self._collect_hub()
        yield gauge("catalog_bytes", "Size of the catalog and its log on the disk.", value=_size_of(self._catalog.path))
        yield gauge("service_up", "1 if the service of this catalog answers.", value=self._live.state is not None)
        comment = "1 if no service runs although one is installed or served this catalog before."
        yield gauge("service_missing", comment, value=self._live.is_missing)
        if self._live.state is not None:
            blind = gauge("watch_blind", "Reasons why changes in this folder are noticed by scans only.", "root")
            for watch in self._live.state.watch:
                blind.add_metric([show_path(watch.root)], len(watch.blind))
            yield blind
        info = gauge("build_info", "Version of integrity.", "version")
        info.add_metric([__version__], 1)
        yield info

    def _collect_hub(self) -> Iterator[Metric]:
        hub = self._status.hub
        if hub is None:
            return
        yield gauge("hub_failing", "1 while reports to the hub fail.", value=hub.failing_since is not None)
        yield gauge("hub_waiting", "Findings, runs, and actions that are not reported to the hub.", value=hub.waiting)
        complete_at = find_complete_at(hub, self._live)
        if complete_at is not None:
            comment = "When the hub last had everything."
            yield gauge("hub_complete_timestamp_seconds", comment, value=complete_at)

    def _collect_runs(self) -> Iterator[Metric]:
        paths = {one.root.id: show_path(one.root.path) for one in self._status.roots}
        with self._catalog.read() as connection:
            last = find_last_runs(connection)
            sums = sum_read(connection)
        ended = gauge(
            "run_last_timestamp_seconds", "When the last run with this outcome ended.", "root", "job", "outcome"
        )
        for (root_id, job, outcome), finished_at in last.items():
            if root_id in paths:
                ended.add_metric([paths[root_id], job, outcome], finished_at)
        yield ended
        read = CounterMetricFamily(
            "integrity_read_bytes", "Bytes that recorded runs read from files.", labels=["root", "job"]
        )
        for (root_id, job), size in sums.items():
            if root_id in paths:
                read.add_metric([paths[root_id], job], size)
        yield read


def _collect_roots(roots: Iterable[RootStatus]) -> Iterator[Metric]:
    files = gauge("root_files", "Recorded files.", "root")
    size = gauge("root_bytes", "Bytes of recorded files.", "root")
    verified = gauge(
        "verified_bytes",
        "Bytes of files last verified, or recorded if never verified, within so many days.",
        *("root", "within"),
    )
    oldest = gauge("oldest_verification_timestamp_seconds", "When the file verified longest ago was verified.", "root")
    kept = gauge("promise_kept", "1 if every file was verified within verify_every.", "root")
    overdue = gauge("overdue_bytes", "Bytes of files not verified within verify_every.", "root")
    active = gauge("root_active", "0 while the folder is paused or suspended, so nothing in it is checked.", "root")
    damaged = gauge("damaged_files", "Damaged files; one may have several open findings.", "root")
    findings = gauge("findings_open", "Open findings.", "root", "kind")
    for one in roots:
        path, covered = show_path(one.root.path), one.coverage
        files.add_metric([path], covered.files)
        size.add_metric([path], covered.bytes)
        within = 0
        for _, end, _, amount in covered.histogram:
            within += amount
            verified.add_metric([path, "any" if end is None else f"{end}d"], within)
        if covered.oldest_at is not None and covered.is_oldest_known:
            oldest.add_metric([path], covered.oldest_at)
        kept.add_metric([path], not covered.overdue_files)
        overdue.add_metric([path], covered.overdue_bytes)
        active.add_metric([path], one.root.state is RootState.ACTIVE)
        damaged.add_metric([path], one.damaged_files)
        for kind, number in sorted(one.open_kinds.items()):
            findings.add_metric([path, kind.value], number)
    yield from (files, size, verified, oldest, kept, overdue, active, damaged, findings)
    yield from _collect_parity(roots)


def _collect_parity(roots: Iterable[RootStatus]) -> Iterator[Metric]:
    protected = gauge("parity_protected_bytes", "Bytes of files that parity protects.", "root")
    size = gauge("parity_bytes", "Size of the parity.", "root")
    least = gauge("parity_least_percent", "How much of its data the weakest parity set can heal.", "root")
    oldest = gauge("parity_oldest_timestamp_seconds", "When the oldest parity set was made.", "root")
    damaged = gauge("parity_damaged_sets", "Parity sets that are damaged themselves.", "root")
    for one in roots:
        if one.protection is not None:
            labels = [show_path(one.root.path)]
            protected.add_metric(labels, one.protection.bytes)
            size.add_metric(labels, one.protection.parity_bytes)
            least.add_metric(labels, one.protection.least_percent)
            oldest.add_metric(labels, one.protection.oldest_at)
            damaged.add_metric(labels, one.protection.damaged_sets)
    yield from (protected, size, least, oldest, damaged)


def _collect_devices(status: Status) -> Iterator[Metric]:
    labels = "root", "kind", "device"
    warning = gauge("device_warning", "1 while this disk or array reports signs of failure.", *labels)
    counts = gauge("device_count", "What this disk or array counts, as it last said.", *labels, "quantity")
    heat = gauge("device_temperature_celsius", "Temperature when this disk was last read.", *labels)
    read = gauge("device_read_timestamp_seconds", "When this disk or array was last read.", *labels)
    scrubbed = gauge("device_scrub_timestamp_seconds", "When this array last compared all of its data.", *labels)
    for path, report in ((show_path(one.root.path), report) for one in status.roots for report in one.devices):
        if report.read_at is None:
            continue
        here = [path, report.kind.value, report.name]
        warning.add_metric(here, bool(find_signs(report, status.at)))
        read.add_metric(here, report.read_at)
        for quantity, count in sorted(report.counts.items()):
            counts.add_metric([*here, quantity.value], count.value)
        if report.temperature_c is not None:
            heat.add_metric(here, report.temperature_c)
        if report.scrubbed_at is not None:
            scrubbed.add_metric(here, report.scrubbed_at)
    yield from (warning, counts, heat, read, scrubbed)


def _collect_copies(status: Status) -> Iterator[Metric]:
    compared = gauge("copy_compared_timestamp_seconds", "When this copy was last compared.", "root", "copy")
    late = gauge("copy_overdue", "1 if the copy was not compared within its verify_every.", "root", "copy")
    findings = gauge("copy_findings_open", "Open findings about this copy.", "root", "copy", "kind")
    for one in status.copies:
        labels = [show_path(one.root.path), one.name]
        if one.waits is not None and one.waits.last_compared_at is not None:
            compared.add_metric(labels, one.waits.last_compared_at)
        late.add_metric(labels, one.is_overdue)
        for kind, number in sorted(one.open_kinds.items()):
            findings.add_metric([*labels, kind.value], number)
    yield from (compared, late, findings)


def gauge(name: str, comment: str, *labels: str, value: float | None = None) -> GaugeMetricFamily:
    """Return a metric that goes up and down; ``labels``: their names."""
    return GaugeMetricFamily(f"integrity_{name}", comment, labels=labels or None, value=value)


def _size_of(catalog: bytes) -> int:
    size = 0
    for suffix in (b"", *SQLITE_SUFFIXES):
        with suppress(FileNotFoundError):
            size += os.stat(catalog + suffix).st_size
    return size
