"""
List the roots and copies that the service handles, and the disks they lie on.

Decides which roots share a queue because they share a disk, whether a disk may be read now, and whether a local copy is
present. Whether another machine answers is only known when it is contacted. Anything that may hang on a disk or server
is done in a thread of its own, with a time limit.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import roots as store
from integrity.config.copy_urls import find_local_path
from integrity.copies.opening import open_copy
from integrity.errors import AppError, RootSuspended, show_path
from integrity.files.block_devices import DISKS_FOLDER, Device, find_device, is_asleep, temperature
from integrity.files.capability import find_capability
from integrity.files.mounts import Mount, find_mounts, get_block_device, mount_among, mount_of
from integrity.files.open_beneath import open_root
from integrity.model import RootId, RootState
from integrity.service.control.requests import covers
from integrity.threads import BackgroundCall

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config, RootSettings
    from integrity.config.definition import ConfiguredCopy, PaceConfig


PATIENCE_S = 2.0
"""A disk that does not answer within this time counts as absent."""


@dataclass(frozen=True, slots=True)
class MonitoredCopy:
    """
    A configured copy of a root that the service handles.

    Args:
        root: the root that contains the copied files.
    """

    settings: ConfiguredCopy
    root: MonitoredRoot

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def path(self) -> bytes | None:
        """Name the folder or file on this machine that it is; None for other kinds."""
        return find_local_path(self.settings.url)


def find_monitored_copies(config: Config, roots: Sequence[MonitoredRoot]) -> list[MonitoredCopy]:
    """Return the configured copies whose root is in ``roots``."""
    found = ((copy, _find_root(roots, copy.of)) for copy in config.copies)
    return [MonitoredCopy(copy, root) for copy, root in found if root is not None]


def find_disks(path: bytes) -> list[str]:
    """
    Return the sysfs names of a folder's disks without waking them: only the mount point is opened.

    The result is empty if the disks are unknown, for example on a server.
    """
    try:
        mount = mount_of(os.path.normpath(path))
        if get_block_device(mount) is None:
            return []
        fd = open_root(mount.mount_point)
    except OSError:
        return []
    try:
        device = find_device(fd)
    except OSError:
        return []
    finally:
        os.close(fd)
    return device.name.split("+") if device.key.startswith("disk:") else []


class PresenceProbe:
    """
    Check in a separate thread whether a local copy is present, so that a hanging disk blocks nothing else.

    Args:
        seen: called in that thread with the reason for the absence; empty if the copy is present.
    """

    def __init__(self, path: bytes, seen: Callable[[str], None] | None = None) -> None:
        self._path = path
        self._seen = seen
        self._call = BackgroundCall("copy", self._look)

    @property
    def is_over(self) -> bool:
        return self._call.is_over

    def result(self, timeout_s: float = PATIENCE_S) -> str:
        """Say why the copy is not there, for people; empty if it is."""
        return self._call.result() if self._call.wait(timeout_s) else "its disk does not answer"

    def _look(self) -> str:
        absence = _find_absence(self._path)
        if self._seen is not None:
            self._seen(absence)
        return absence


def _find_absence(path: bytes) -> str:
    if os.path.isfile(path):
        return ""
    try:
        with open_copy(os.fsdecode(path)):
            return ""
    except AppError as error:
        return str(error)


def _find_root(roots: Sequence[MonitoredRoot], path: bytes) -> MonitoredRoot | None:
    return next((root for root in roots if covers((root.path,), path)), None)


class MountWatch:
    """Detect mounts and unmounts by polling /proc/self/mountinfo, at no cost (proc(5)). Belongs to one thread."""

    def __init__(self) -> None:
        self._fd = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLPRI)
        self._mounts_of: dict[bytes, frozenset[Mount]] = {}

    def has_changed(self) -> bool:
        """Return whether the mounts have changed since the last call."""
        return bool(self._poll.poll(0))

    def take_remounted(self, roots: Iterable[bytes]) -> list[bytes]:
        """Return the roots that lie on, or contain, other mounts than at the last call; new ones as well."""
        mounts = find_mounts()
        found = {root: frozenset([mount_among(mounts, root), *_find_beneath(mounts, root)]) for root in roots}
        changed = [root for root, known in found.items() if self._mounts_of.get(root) != known]
        self._mounts_of = found
        return changed

    def close(self) -> None:
        os.close(self._fd)


def _find_beneath(mounts: Iterable[Mount], path: bytes) -> Iterator[Mount]:
    folder = path.rstrip(b"/") + b"/"
    return (mount for mount in mounts if mount.mount_point.startswith(folder))


_PATIENCE_S = 2.0
"""Limit for a blocking probe: with a longer one, the service would stop later than systemd allows."""

_ABSENT = Device(is_rotational=False, name="absent", key="absent")
"""Placeholder for a root that can't be opened now. Its jobs fail quickly and report the reason."""


@dataclass(frozen=True, slots=True)
class MonitoredRoot:
    """
    A root that the service handles.

    Args:
        path: absolute, real.
        id: in the catalog; None if the root is configured but was never scanned.
        is_remote: other machines may write to it.
        lane: name of its queue, shared by all roots that have a disk in common, directly or through a third root.
        look: the unfinished probe of its device; None unless the root hangs.
    """

    path: bytes
    id: RootId | None
    settings: RootSettings
    device: Device
    is_remote: bool
    lane: str
    look: _Look | None = field(default=None, compare=False)

    @property
    def is_hanging(self) -> bool:
        """Return whether the device did not answer. Any access to the root would hang as well."""
        return self.look is not None

    @property
    def disks(self) -> list[str]:
        """Return the sysfs names of its disks; empty if it lies on no local disk."""
        return self.device.name.split("+") if self.device.key.startswith("disk:") else []

    def is_asleep(self) -> bool:
        """Return whether one of its disks is known to be spun down. Wakes no disk."""
        return any(is_asleep(disk) for disk in self.disks)


def may_read(disks: Iterable[str], pace: PaceConfig, *, must: bool, blocks_folder: str = DISKS_FOLDER) -> bool:
    """Return whether disks may be read now: sleeping ones only if ``must`` or configured, hot ones never."""
    named = list(disks)
    awake = [disk for disk in named if not is_asleep(disk, blocks_folder=blocks_folder)]
    if len(awake) < len(named) and not (must or pace.wake):
        return False
    most = pace.max_temperature  # asked only of disks that are awake: the question wakes some
    return not most or all((temperature(disk, blocks_folder=blocks_folder) or 0) <= most for disk in awake)


def find_monitored_roots(catalog: Catalog, config: Config, known: Sequence[MonitoredRoot] = ()) -> list[MonitoredRoot]:
    """
    Return the roots that are recorded or configured and not paused.

    Args:
        known: the previous result. Only absent roots are probed again; a hanging root keeps its first probe.
    """
    former = {root.path: root for root in known}
    with catalog.read() as connection:
        recorded = store.find_roots(connection)
    ids = {root.path: root.id for root in recorded}
    paused = {root.path for root in recorded if root.state is RootState.PAUSED}
    paths = [path for path in dict.fromkeys([*ids, *(root.path for root in config.own_roots)]) if path not in paused]
    seen = [_see(path, former.get(path)) for path in paths]
    lanes = name_lanes([one.device for one in seen])
    return [
        MonitoredRoot(path, ids.get(path), config.settings_for(path), one.device, one.is_remote, lane, one.look)
        for path, one, lane in zip(paths, seen, lanes, strict=True)
    ]


class _Seen(NamedTuple):
    """What is known about a root's device."""

    device: Device
    is_remote: bool
    look: _Look | None = None


class _Look:
    """Probe the device of a path in a separate thread, so that a server that does not answer blocks nothing else."""

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._call = BackgroundCall("root", lambda: _ask(path))

    def result(self, timeout_s: float = 0.0) -> _Seen:
        """Tell what was found; if nothing was so far, a device that is like no other."""
        if self._call.wait(timeout_s):
            return self._call.result()
        name = f"hanging {show_path(self._path)}"
        return _Seen(Device(is_rotational=False, name=name, key=name), is_remote=False, look=self)


def _see(path: bytes, former: MonitoredRoot | None) -> _Seen:
    if former is not None and former.look is not None:
        return former.look.result()
    if former is not None and former.device is not _ABSENT:
        return _Seen(former.device, former.is_remote)
    return _Look(path).result(_PATIENCE_S)


def _ask(path: bytes) -> _Seen:
    try:
        fd = open_root(path)
    except OSError:
        return _Seen(_ABSENT, is_remote=False)  # its scan will report the reason
    try:
        return _Seen(find_device(fd), find_capability(fd, path).is_remote)
    except (OSError, RootSuspended):
        return _Seen(_ABSENT, is_remote=False)
    finally:
        os.close(fd)


def name_lanes(devices: Sequence[Device]) -> list[str]:
    """Return a queue name for each device. Devices that share a disk, directly or through others, get the same name."""
    groups: list[set[str]] = []
    for device in devices:
        disks = _disks_of(device)
        joined = [group for group in groups if group & disks]
        groups = [group for group in groups if not group & disks]
        groups.append(disks.union(*joined))
    return [next("+".join(sorted(group)) for group in groups if group & _disks_of(device)) for device in devices]


def _disks_of(device: Device) -> set[str]:
    return set(device.name.split("+")) if device.key.startswith("disk:") else {device.key}


def lane_of(roots: Iterable[MonitoredRoot], path: bytes) -> str:
    for root in roots:
        if path == root.path or path.startswith(root.path.rstrip(b"/") + b"/"):
            return root.lane
    disks = _disks_of(_Look(path).result(_PATIENCE_S).device)
    return next((root.lane for root in roots if disks & set(root.lane.split("+"))), "+".join(sorted(disks)))
