"""
The copies that the service compares: of which root each is one, and whether that on a disk is there.

A folder or manifest on this machine may lie on a disk that is not always attached; that can be seen. Whether another
machine answers is only known when it is asked.

Notice that something was mounted or unmounted: the kernel says so to who asks, at no cost (proc(5)).

The roots that the service looks after, and which of them share a thread because they share a disk.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import roots as store
from integrity.config.copy_urls import find_local_path
from integrity.copies.opening import open_copy
from integrity.errors import AppError, RootSuspended, show_path
from integrity.files.block_devices import Device, find_device, is_asleep, temperature
from integrity.files.capability import find_capability
from integrity.files.mounts import get_block_device, mount_of
from integrity.files.open_beneath import open_root
from integrity.model import RootId, RootState
from integrity.service.control.requests import covers
from integrity.threads import BackgroundCall

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config, RootSettings
    from integrity.config.definition import ConfiguredCopy, PaceConfig


PATIENCE_S = 2.0
"""Who does not answer within so long is not there."""


@dataclass(frozen=True, slots=True)
class KeptCopy:
    """
    A copy in the service's care.

    Args:
        settings: of it.
        root: of which it has files.
    """

    settings: ConfiguredCopy
    root: KeptRoot

    @property
    def name(self) -> str:
        """Name it as the configuration does."""
        return self.settings.name

    @property
    def path(self) -> bytes | None:
        """Name the folder or file on this machine that it is; None for other kinds."""
        return find_local_path(self.settings.url)


def find_kept_copies(config: Config, roots: Sequence[KeptRoot]) -> list[KeptCopy]:
    """List the configured copies of roots that are worked on."""
    found = ((copy, _find_root(roots, copy.of)) for copy in config.copies)
    return [KeptCopy(copy, root) for copy, root in found if root is not None]


def find_disks(path: bytes) -> list[str]:
    """
    Name the disks that a folder lies on, in sysfs, without waking them: only the mount point is looked at.

    None where that is not known, as of a server.
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
    A look whether a copy on this machine is there, in a thread of its own: a disk that hangs has nobody else hang.

    Args:
        path: of the copy.
        seen: takes why it is not there, empty if it is, in that thread.
    """

    def __init__(self, path: bytes, seen: Callable[[str], None] | None = None) -> None:
        self._path = path
        self._seen = seen
        self._call = BackgroundCall("copy", self._look)

    @property
    def is_over(self) -> bool:
        """Say whether it was answered."""
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


def _find_root(roots: Sequence[KeptRoot], path: bytes) -> KeptRoot | None:
    return next((root for root in roots if covers((root.path,), path)), None)


class MountWatch:
    """Belongs to one thread."""

    def __init__(self) -> None:
        self._fd = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLPRI)

    def has_changed(self) -> bool:
        """Say whether the mounts that this process sees have changed since it was last asked."""
        return bool(self._poll.poll(0))

    def close(self) -> None:
        """Let go of it."""
        os.close(self._fd)


_PATIENCE_S = 2.0
"""Who waits longer stops later than systemd, and whoever it asks, allows."""

_ABSENT = Device(is_rotational=False, name="absent", key="absent")
"""What cannot be opened now: its jobs find that out again, quickly, and say so."""


@dataclass(frozen=True, slots=True)
class KeptRoot:
    """
    A root in the service's care.

    Args:
        path: absolute, real.
        id: its number in the catalog; None: it is configured, but was never scanned.
        settings: of it.
        device: what it lies on.
        is_remote: others may write to it past this machine.
        lane: the same for all roots that share a disk, also with a third one that lies on both of their disks.
        look: at what it lies on, if it was not answered in time: it hangs.
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
        """Say whether it did not answer: whoever touches it would hang as well."""
        return self.look is not None

    @property
    def disks(self) -> list[str]:
        """Name its disks in sysfs; none if it lies on no disk of this machine."""
        return self.device.name.split("+") if self.device.key.startswith("disk:") else []

    def is_asleep(self) -> bool:
        """Say whether a disk of it is known to be spun down; asking wakes none."""
        return any(is_asleep(disk) for disk in self.disks)


def may_read(disks: Iterable[str], pace: PaceConfig, *, must: bool) -> bool:
    """Say whether disks may be read now: none is woken before a promise forces it, nor read while it is hot."""
    named = list(disks)
    if any(is_asleep(disk) for disk in named):
        return must or pace.wake  # and it is not asked how hot it is: some wake up for that
    most = pace.max_temperature
    return not most or all((temperature(disk) or 0) <= most for disk in named)


def find_kept_roots(catalog: Catalog, config: Config, known: Sequence[KeptRoot] = ()) -> list[KeptRoot]:
    """
    List the roots that are recorded or configured and not paused.

    Args:
        catalog: where they are recorded.
        config: where they are configured.
        known: those of before: what they lie on is not looked at again, unless they were absent. Nor are those that
            hang: the answer to the first look is waited for.
    """
    former = {root.path: root for root in known}
    with catalog.read() as connection:
        recorded = store.find_roots(connection)
    ids = {root.path: root.id for root in recorded}
    paused = {root.path for root in recorded if root.state is RootState.PAUSED}
    paths = [path for path in dict.fromkeys([*ids, *(root.path for root in config.roots)]) if path not in paused]
    seen = [_see(path, former.get(path)) for path in paths]
    lanes = name_lanes([one.device for one in seen])
    return [
        KeptRoot(path, ids.get(path), config.settings_for(path), one.device, one.is_remote, lane, one.look)
        for path, one, lane in zip(paths, seen, lanes, strict=True)
    ]


class _Seen(NamedTuple):
    """What a root lies on, as far as is known."""

    device: Device
    is_remote: bool
    look: _Look | None = None


class _Look:
    """A look at what a path lies on, in a thread of its own: a server that does not answer has nobody else hang."""

    def __init__(self, path: bytes) -> None:
        self._path = path
        self._call = BackgroundCall("root", lambda: _ask(path))

    def result(self, timeout_s: float = 0.0) -> _Seen:
        """Tell what was found; if nothing was so far, a device that is like no other."""
        if self._call.wait(timeout_s):
            return self._call.result()
        return _Seen(_hanging(self._path), is_remote=False, look=self)


def _see(path: bytes, former: KeptRoot | None) -> _Seen:
    if former is not None and former.look is not None:
        return former.look.result()
    if former is not None and former.device is not _ABSENT:
        return _Seen(former.device, former.is_remote)
    return _Look(path).result(_PATIENCE_S)


def _hanging(path: bytes) -> Device:
    name = f"hanging {show_path(path)}"
    return Device(is_rotational=False, name=name, key=name)


def _ask(path: bytes) -> _Seen:
    try:
        fd = open_root(path)
    except OSError:
        return _Seen(_ABSENT, is_remote=False)  # whoever scans it says why
    try:
        return _Seen(find_device(fd), find_capability(fd, path).is_remote)
    except (OSError, RootSuspended):
        return _Seen(_ABSENT, is_remote=False)
    finally:
        os.close(fd)


def name_lanes(devices: Sequence[Device]) -> list[str]:
    """Name a lane for each device: the same for those that have a disk in common, with each other or through others."""
    groups: list[set[str]] = []
    for device in devices:
        disks = _disks_of(device)
        joined = [group for group in groups if group & disks]
        groups = [group for group in groups if not group & disks]
        groups.append(disks.union(*joined))
    return [next("+".join(sorted(group)) for group in groups if group & _disks_of(device)) for device in devices]


def _disks_of(device: Device) -> set[str]:
    return set(device.name.split("+")) if device.key.startswith("disk:") else {device.key}


def lane_of(roots: Iterable[KeptRoot], path: bytes) -> str:
    """Name the lane of whatever lies at a path, in a root or not."""
    for root in roots:
        if path == root.path or path.startswith(root.path.rstrip(b"/") + b"/"):
            return root.lane
    disks = _disks_of(_Look(path).result(_PATIENCE_S).device)
    return next((root.lane for root in roots if disks & set(root.lane.split("+"))), "+".join(sorted(disks)))
