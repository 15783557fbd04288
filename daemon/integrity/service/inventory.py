"""The roots that the service looks after, and which of them share a thread because they share a disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import roots as store
from integrity.errors import show_path
from integrity.files.block_devices import is_asleep, temperature
from integrity.files.capability import find_capability
from integrity.files.devices import Device, find_device
from integrity.files.open_beneath import open_root
from integrity.model import RootId, RootState

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config, RootSettings
    from integrity.config.definition import Pace

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


def may_read(disks: Iterable[str], pace: Pace, *, must: bool) -> bool:
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
        self._found: list[_Seen] = []
        self._thread = threading.Thread(target=lambda: self._found.append(_ask(path)), name="root", daemon=True)
        self._thread.start()

    def result(self, timeout_s: float = 0.0) -> _Seen:
        """Tell what was found; if nothing was so far, a device that is like no other."""
        self._thread.join(timeout_s)
        return self._found[0] if self._found else _Seen(_hanging(self._path), is_remote=False, look=self)


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
    except OSError:
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
