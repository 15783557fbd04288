"""Collect from the catalog how well the roots are covered and which findings are open. Read-only."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from integrity.alerts.status import AlertStatus, find_alert_status
from integrity.catalog import findings
from integrity.catalog.copies import find_copies
from integrity.catalog.coverage import Coverage, coverage
from integrity.catalog.outbox import LASTING_FAILURE_S, ChannelState
from integrity.catalog.parity import Protection, find_protection
from integrity.catalog.root_meta import PastService, find_past_service, find_reports
from integrity.catalog.roots import RootRecord, find_roots
from integrity.catalog.runs import RunRecord, find_runs, last_started
from integrity.catalog.sqlite_errors import find_full_folder
from integrity.config import Config, RootSettings
from integrity.files.excludes import BUILTIN
from integrity.jobs.compare.deadline import CopyStatus, find_copy_status
from integrity.jobs.hub_status import HubStatus, find_hub_status
from integrity.jobs.lock import LockHolder, find_holder
from integrity.jobs.targets import find_target, is_inside
from integrity.kinds import DAMAGE
from integrity.model import Finding, FindingKind, Job, RootId, RootState
from integrity.words.findings import sort_by_gravity

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog, Connection
    from integrity.catalog.own_checks import OwnCheckCounts
    from integrity.disks.report import DeviceReport
    from integrity.jobs.scrub.plan import OpenTimes, Plan

_RUNS_SEARCHED = 200
_MOST_WORST = 500
"""Up to this many open findings are asked for copies to repair from, while somebody waits."""


class RootStatus(NamedTuple):
    """
    The status of one root.

    Args:
        open_kinds: number of open findings by kind, without those counted for its copies.
        last_scan: the latest scan, finished or not; None if there was none.
        working: the job that runs on it now.
        due_at: when the first file becomes (or became) due; None without files.
        overdue_read_s: how long reading the overdue files takes at the rate of the last scrubs; None if unknown.
        plan: what ``verify_every`` requires of the windows; None if no service has scrubbed yet.
        told_twice: how many more findings of damage there are than damaged files.
        own_checks: what the checks that formats carry said; None: they are not asked.
        protection: how much of it its parity protects; None: it has none.
        last_protect: the latest run that made parity, finished or not; None if there was none.
    """

    root: RootRecord
    settings: RootSettings
    coverage: Coverage
    open_kinds: Counter[FindingKind]
    last_scan: RunRecord | None
    last_scrub: RunRecord | None
    working: LockHolder | None
    due_at: int | None
    overdue_read_s: float | None
    plan: "Plan | None" = None
    windows: str = ""
    devices: "tuple[DeviceReport, ...]" = ()
    told_twice: int = 0
    own_checks: "OwnCheckCounts | None" = None
    protection: "Protection | None" = None
    last_protect: "RunRecord | None" = None

    @property
    def damaged_files(self) -> int:
        """The number of damaged files; one may have several findings."""
        return sum(self.open_kinds[kind] for kind in DAMAGE) - self.told_twice

    @property
    def is_overdue(self) -> bool:
        """Whether verification is overdue; never for a paused or suspended root."""
        return bool(self.coverage.overdue_files) and self.root.state is RootState.ACTIVE

    @property
    def kinds(self) -> set[FindingKind]:
        """All problems, including overdue verification and a suspension that no run has reported yet."""
        found = set(self.open_kinds)
        if self.is_overdue:
            found.add(FindingKind.OVERDUE)
        if self.root.state is RootState.SUSPENDED:
            found.add(FindingKind.ROOT_SUSPENDED)
        return found


class Status(NamedTuple):
    """
    The status of the requested roots.

    Args:
        roots: sorted by path.
        unscanned: configured roots that the catalog does not know yet.
        lost_copies: names of configured copies whose original lies in no root.
        at: when the status was collected, seconds UTC.
        worst: the open findings, the gravest first; empty if there are very many.
        hub: how reports to the hub fare; None if none is configured.
        full_folder: the catalog's folder if its disk is full; None if it is not.
        unreachable: since when copies can't be reached as a whole, by root and name.
        builtin_excludes: the built-in list, as gitignore patterns.
        past_service: the service that last served the catalog, unless commands took its place since it was stopped.
    """

    roots: tuple[RootStatus, ...]
    unscanned: tuple[bytes, ...]
    copies: tuple[CopyStatus, ...]
    lost_copies: tuple[str, ...]
    alerts: AlertStatus
    at: int
    worst: tuple[Finding, ...] = ()
    hub: HubStatus | None = None
    full_folder: bytes | None = None
    unreachable: Mapping[tuple[RootId, str], int] = MappingProxyType({})
    builtin_excludes: tuple[str, ...] = BUILTIN
    past_service: PastService | None = None

    @property
    def kinds(self) -> set[FindingKind]:
        """All problems of the roots and copies."""
        return {kind for one in self.roots for kind in one.kinds} | {kind for one in self.copies for kind in one.kinds}

    @property
    def open_kinds(self) -> Counter[FindingKind]:
        """The number of open findings by kind, of roots and copies."""
        counters = [*(one.open_kinds for one in self.roots), *(one.open_kinds for one in self.copies)]
        return sum(counters, Counter[FindingKind]())

    def find_unreachable(self, copy: CopyStatus) -> int | None:
        """Return since when a copy can't be reached as a whole; None: it can, as far as is known."""
        return self.unreachable.get((copy.root.id, copy.name))

    def count_open(self, copy: CopyStatus) -> Counter[FindingKind]:
        """Count the open findings about files of a copy, without the one that it can't be reached as a whole."""
        one = Counter([] if self.find_unreachable(copy) is None else [FindingKind.COPY_UNREADABLE])
        return copy.open_kinds - one

    @property
    def is_hub_silent(self) -> bool:
        """Whether a hub has not been told anything for long."""
        return self.hub is not None and self.hub.is_silent(self.at)

    @property
    def told_twice(self) -> int:
        """How many more findings of damage there are than damaged files."""
        return sum(one.told_twice for one in self.roots)

    @property
    def lasting_failures(self) -> tuple[ChannelState, ...]:
        """The channels that have failed for more than an hour, or whose failure will not pass by itself."""
        return tuple(
            one
            for one in self.alerts.channels
            if one.failing_since is not None and (one.is_permanent or self.at - one.failing_since > LASTING_FAILURE_S)
        )


def find_status(
    catalog: "Catalog",
    config: Config,
    paths: Sequence[bytes],
    *,
    find_windows: Callable[[], "OpenTimes"] | None = None,
    clock: Callable[[], float] = time.time,
) -> Status:
    """
    Collect the status of some roots.

    Args:
        catalog: may be open for reading only.
        paths: real paths in or at roots; empty: all roots.
        find_windows: returns the scrub windows of the service; called if a service has scrubbed by its schedule.
        clock: seconds UTC.

    Raises:
        ConfigError: a path lies in no root.
    """
    now = int(clock())
    with catalog.read() as connection:
        known = find_roots(connection)
        wanted = known
        if paths:
            chosen = {find_target(connection, path).root.id for path in paths}
            wanted = [root for root in known if root.id in chosen]
        windows = find_windows() if find_windows and any(_uses_windows(connection, one) for one in wanted) else None
        copies = tuple(find_copy_status(connection, config, wanted, now=now))
        shown = {(one.root.id, one.name) for one in copies}
        disks = ((root.id, one) for root in wanted for one in find_copies(connection, root.id))
        shown |= {(root_id, one.name) for root_id, one in disks if (root_id, one.base_name) in shown}
        roots = tuple(_find_root_status(connection, catalog.path, config, root, windows, now, shown) for root in wanted)
        alerts = find_alert_status(connection, config, now)
        hub = find_hub_status(connection, config)
        ids = {root.id for root in wanted}
        unreachable = findings.find_unreachable_copies(connection)
        unreachable = {place: since for place, since in unreachable.items() if place[0] in ids}
        found = findings.page_incidents(connection, before=None, limit=_MOST_WORST + 1)
        past_service = find_past_service(connection, now)
    wanted_paths = {root.path for root in wanted}
    worst = sort_by_gravity(one for one in found if one.root in wanted_paths) if len(found) <= _MOST_WORST else ()
    paths_known = {root.path for root in known}
    unscanned = [root.path for root in config.own_roots if root.path not in paths_known and not paths]
    folders = [*paths_known, *unscanned]
    lost = [
        one.name
        for one in config.copies
        if not paths and not any(is_inside(one.of, folder.rstrip(b"/")) for folder in folders)
    ]
    full_folder = find_full_folder(catalog.path)
    return Status(
        *(roots, tuple(unscanned), copies, tuple(lost), alerts, now, tuple(worst), hub, full_folder, unreachable),
        past_service=past_service,
    )


def _find_root_status(
    connection: "Connection",
    catalog_path: bytes,
    config: Config,
    root: RootRecord,
    windows: "OpenTimes | None",
    now: int,
    copies: set[tuple[RootId, str]],
) -> RootStatus:
    settings = config.settings_for(root.path)
    covered = coverage(connection, root.id, now=now, verify_every_s=settings.verify_every_s)
    runs = find_runs(connection, root.id, _RUNS_SEARCHED)
    open_kinds = Counter[FindingKind]()
    for (_, kind, copy), number in findings.count_incidents(connection, root.id).items():
        open_kinds[kind] += 0 if (root.id, copy) in copies else number
    last_scrub = _last(runs, Job.SCRUB)
    plan = None
    if windows is not None and _uses_windows(connection, root):
        from integrity.jobs.scrub.plan import make_plan  # here, for only a service has windows
        from integrity.jobs.scrub.promise import find_facts

        facts = find_facts(connection, root, verify_every_s=settings.verify_every_s, now=now)
        plan = make_plan(facts, windows, verify_every_s=settings.verify_every_s, now=now)
    own_checks = None
    if settings.inspect:
        from integrity.catalog.own_checks import count_own_checks  # here, for most roots are not inspected

        own_checks = count_own_checks(connection, root.id)
    return RootStatus(
        root=root,
        settings=settings,
        coverage=covered,
        open_kinds=+open_kinds,
        last_scan=_last(runs, Job.SCAN),
        last_scrub=last_scrub,
        working=find_holder(catalog_path, root.id),
        due_at=None if covered.oldest_at is None else covered.oldest_at + settings.verify_every_s,
        overdue_read_s=_estimate(covered.overdue_bytes, runs),
        plan=plan,
        windows=config.schedule.scrub,
        devices=tuple(find_reports(connection, root)),
        told_twice=findings.count_told_twice(connection, root.id),
        own_checks=own_checks,
        protection=find_protection(connection, root.id),
        last_protect=_last(runs, Job.PROTECT),
    )


def _uses_windows(connection: "Connection", root: RootRecord) -> bool:
    """Return whether a service has scrubbed the root by its schedule."""
    return any(last_started(connection, Job.SCRUB.value, root_id) for root_id in (root.id, None))


def _last(runs: Sequence[RunRecord], job: Job) -> RunRecord | None:
    return next((run for run in runs if run.job is job), None)


def _estimate(size_bytes: int, runs: Sequence[RunRecord]) -> float | None:
    """Return how long reading this many bytes takes at the rate of the last scrubs; None if unknown, or for none."""
    if not size_bytes:
        return None
    from integrity.jobs.scrub.promise import measure_rate  # here, for most often nothing is overdue

    rate = measure_rate([run for run in runs if run.job is Job.SCRUB])
    return None if rate is None else size_bytes / rate
