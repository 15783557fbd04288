"""
Read what the disks and arrays below the roots report of themselves, and open a finding when one begins to fail.

Decides when a disk is read: once a day, and again after damage was found, so that the mail about it can say what the
disk reports. ``disks.signs`` decides what is a sign of failure.

I1  No sleeping disk is woken: only mount points are opened, and nothing is written for a disk that sleeps.
I2  A root that hangs delays no other: it is asked in a thread of its own, and not again before that has ended.
I3  A warning that gets worse is a new finding, so that people are told, also of one that they acknowledged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import findings
from integrity.catalog.findings import NewFinding
from integrity.catalog.root_meta import find_reports, replace_reports
from integrity.catalog.roots import RootRecord, find_roots, has_root
from integrity.disks.arrays import read_arrays
from integrity.disks.report import DeviceKind, DeviceReport, DeviceTrouble, follow
from integrity.disks.signs import DeviceSign, Remedy, describe_signs, find_remedy, find_signs
from integrity.disks.smart import read_smart
from integrity.errors import ReadInterrupted
from integrity.files.block_devices import find_disks_of, find_stack, find_stack_of, is_asleep
from integrity.files.capability import find_fs_names
from integrity.files.mounts import get_mount, mount_of
from integrity.files.open_beneath import open_root
from integrity.jobs import messages
from integrity.kinds import HARDWARE_MATTERS
from integrity.model import Finding, FindingKind, RootId, RootState
from integrity.paths import shell_path
from integrity.same_place import is_same_disk
from integrity.threads import BackgroundCall

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.jobs.context import Context

_DAY_S = 86_400
_HOUR_S = 3600
_PATIENCE_S = 60.0
"""For the arrays of a root; `zpool` has a deadline of its own that is shorter."""

_Key = tuple[DeviceKind, str]


class _Below(NamedTuple):
    """What lies below a root: the names of its disks, and what its arrays report."""

    disks: tuple[str, ...]
    arrays: tuple[DeviceReport, ...]


class DiskCheck:
    """
    Check the disks of all roots, one after the other. Belongs to one thread.

    Args:
        read: reads the SMART values of a disk, at a time in seconds UTC.
    """

    def __init__(self, read: Callable[[str, int], DeviceReport] = read_smart) -> None:
        self._read = read
        self._probes: dict[RootId, BackgroundCall[_Below | None]] = {}
        self._tried_at: dict[RootId, int] = {}

    def run(self, context: Context) -> bool:
        """
        Check the roots whose disks are due.

        Returns:
            Whether a finding was opened or resolved.

        Raises:
            ReadInterrupted: the context asks to stop while a disk is asked.
        """
        read_now: dict[str, DeviceReport] = {}
        with context.catalog.read() as connection:
            roots = [root for root in find_roots(connection) if root.state is RootState.ACTIVE]
        return sum(self._check_root(context, root, read_now) for root in roots) > 0

    def _check_root(self, context: Context, root: RootRecord, read_now: dict[str, DeviceReport]) -> bool:
        now = context.now()
        with context.catalog.read() as connection:
            before = {_key(report): report for report in find_reports(connection, root)}
            damaged_at = _find_damage_time(connection, root.id)
        is_turned_off = not context.config.disks.smart and any(kind is DeviceKind.DISK for kind, _ in before)
        if not is_turned_off and not self._is_root_due(root.id, before.values(), damaged_at, now):
            return False
        self._tried_at[root.id] = now
        below = self._probe(context, root)
        if below is None:
            return False
        reports = []
        for array in below.arrays:
            known = before.get(_key(array))
            reports.append(follow(known, array) if known is None or _is_due(known, damaged_at, now) else known)
        for disk in below.disks if context.config.disks.smart else ():
            known = before.get((DeviceKind.DISK, disk))
            if _is_due(known, damaged_at, now):
                known = self._read_disk(context, disk, known, read_now)
            reports += [] if known is None else [known]
        is_unchanged = before == {_key(report): report for report in reports}
        return not is_unchanged and _record(context, root, before, reports)

    def _is_root_due(self, root_id: RootId, reports: Iterable[DeviceReport], damaged_at: int, now: int) -> bool:
        if 0 <= now - self._tried_at.get(root_id, -_HOUR_S) < _HOUR_S:
            return False
        known = list(reports)
        return not known or any(_is_due(report, damaged_at, now) for report in known)

    def _read_disk(
        self, context: Context, disk: str, known: DeviceReport | None, read_now: dict[str, DeviceReport]
    ) -> DeviceReport | None:
        """Read a disk, once for all of its roots; return its former report if it sleeps."""
        if disk not in read_now:
            call = BackgroundCall("smart", lambda: self._ask(disk, context.now()))
            read_now[disk] = call.result(context.stop.is_set)
        report = read_now[disk]
        return known if report.trouble is DeviceTrouble.ASLEEP else follow(known, report)

    def _ask(self, disk: str, now: int) -> DeviceReport:
        if is_asleep(disk):
            return DeviceReport(disk, DeviceKind.DISK, "", now, trouble=DeviceTrouble.ASLEEP)
        return self._read(disk, now)

    def _probe(self, context: Context, root: RootRecord) -> _Below | None:
        """Find what lies below a root; None if it is absent, or does not answer."""
        if root.id not in self._probes:
            self._probes[root.id] = BackgroundCall("disks", lambda: _look_below(root, context.now()))
        probe, deadline = self._probes[root.id], context.monotonic() + _PATIENCE_S
        try:
            return probe.result(lambda: context.stop.is_set() or context.monotonic() > deadline)
        except ReadInterrupted:
            return None
        finally:
            if probe.is_over:
                del self._probes[root.id]


def _look_below(root: RootRecord, now: int) -> _Below | None:
    """Return what lies below a root; None if its file system is not mounted."""
    try:
        fd = open_root(mount_of(root.path).mount_point)
    except OSError:
        return None
    try:
        mount = get_mount(fd)
        if root.was_seen and not is_same_disk(root.identity.fs_id, find_fs_names(fd, mount)):
            return None
        stack = find_stack(fd, mount)
        arrays = read_arrays(fd, mount, stack, now)
        members = [node for array in arrays for device in array.members for node in find_stack_of(device)]
        disks = sorted({os.path.basename(disk) for disk in find_disks_of([*stack, *members])})
        return _Below(tuple(disks), tuple(array.report for array in arrays))
    except OSError:
        return None
    finally:
        os.close(fd)


def _key(report: DeviceReport) -> _Key:
    return report.kind, report.name


def _is_due(report: DeviceReport | None, damaged_at: int, now: int) -> bool:
    if report is None:
        return True
    age_s = now - report.tried_at
    return not 0 <= age_s < _DAY_S or (damaged_at > report.tried_at and age_s >= _HOUR_S)


def _find_damage_time(c: Connection, root_id: RootId) -> int:
    """Return when the newest open finding was opened for which the state of the disk matters; 0: there is none."""
    ids = findings.find_unresolved(c, root_id, kinds=HARDWARE_MATTERS)
    return max((finding.opened_at for finding in findings.get_findings(c, ids)), default=0)


def _record(
    context: Context, root: RootRecord, before: Mapping[_Key, DeviceReport], reports: Sequence[DeviceReport]
) -> bool:
    """Record the reports of a root and what follows from them; return whether a finding was opened or resolved."""
    now = context.now()
    signs = {_key(report): found for report in reports if (found := find_signs(report, now))}
    former = {key: find_signs(report, now) for key, report in before.items()}
    with context.catalog.transaction() as connection:
        if not has_root(connection, root.id):
            return False  # forgotten meanwhile
        replace_reports(connection, root, reports)
        is_open = findings.has_open(connection, root.id, FindingKind.DISK_WARNING)
        if not signs:
            return is_open and _end(connection, root.id, messages.DISKS_WELL, now)
        is_news = not is_open or _is_worse(former, signs)
        if is_open and is_news:
            _end(connection, root.id, messages.DISK_WORSE, now)
        finding = _open(connection, root.id, [(one, signs[_key(one)]) for one in reports if _key(one) in signs], now)
    if is_news:
        context.report.finding(finding)
    return is_news


def _is_worse(former: Mapping[_Key, Sequence[DeviceSign]], signs: Mapping[_Key, Sequence[DeviceSign]]) -> bool:
    known = {(key, sign.quantity): sign.value for key, found in former.items() for sign in found}
    return any(sign.value > known.get((key, sign.quantity), 0) for key, found in signs.items() for sign in found)


def _open(
    connection: Connection, root_id: RootId, failing: Sequence[tuple[DeviceReport, Sequence[DeviceSign]]], now: int
) -> Finding:
    """Open the finding, or update it; its step is about the device with the gravest signs."""
    text = " ".join(f"{describe_signs(report, signs)}." for report, signs in failing)
    remedies = list(Remedy)
    worst, signs = min(failing, key=lambda one: remedies.index(find_remedy(one[1])))
    new = NewFinding(
        *(FindingKind.DISK_WARNING, root_id, None, None, text),
        step=messages.about_device(worst.name, find_remedy(signs).value),
        command=_name_command(worst),
    )
    return findings.open_finding(connection, new, now=now, run_id=None)[0]


def _name_command(report: DeviceReport) -> str:
    """Return the command that prints all that a device reports."""
    name = shell_path(os.fsencode(report.name))
    return {
        DeviceKind.DISK: f"smartctl -x /dev/{name}",
        DeviceKind.MD: f"mdadm --detail /dev/{name}",
        DeviceKind.BTRFS: f"btrfs device stats {name}",
        DeviceKind.ZFS: f"zpool status -v {name}",
    }[report.kind]


def _end(connection: Connection, root_id: RootId, resolution: str, now: int) -> bool:
    kinds = {FindingKind.DISK_WARNING}
    return bool(findings.resolve_findings(connection, root_id=root_id, kinds=kinds, resolution=resolution, now=now))
