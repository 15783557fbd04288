"""The roots that the service looks after, and which of them share a thread because they share a disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from integrity.catalog import roots as store
from integrity.files.capability import find_capability
from integrity.files.devices import Device, find_device
from integrity.files.opening import open_root
from integrity.files.power import is_asleep
from integrity.model import RootId, RootState

if TYPE_CHECKING:
    from integrity.catalog.connect import Catalog
    from integrity.config import Config, RootSettings

_PATIENCE_S = 10.0

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
    """

    path: bytes
    id: RootId | None
    settings: RootSettings
    device: Device
    is_remote: bool
    lane: str

    @property
    def disks(self) -> list[str]:
        """Name its disks in sysfs; none if it lies on no disk of this machine."""
        return self.device.name.split("+") if self.device.key.startswith("disk:") else []

    def is_asleep(self) -> bool:
        """Say whether a disk of it is known to be spun down; asking wakes none."""
        return any(is_asleep(disk) for disk in self.disks)


def find_kept_roots(catalog: Catalog, config: Config, known: Sequence[KeptRoot] = ()) -> list[KeptRoot]:
    """
    List the roots that are recorded or configured and not paused.

    Args:
        catalog: where they are recorded.
        config: where they are configured.
        known: those of before: what they lie on is not looked at again, unless they were absent.
    """
    devices = {root.path: (root.device, root.is_remote) for root in known if root.device is not _ABSENT}
    with catalog.read() as connection:
        recorded = store.find_roots(connection)
    ids = {root.path: root.id for root in recorded}
    paused = {root.path for root in recorded if root.state is RootState.PAUSED}
    paths = [path for path in dict.fromkeys([*ids, *(root.path for root in config.roots)]) if path not in paused]
    found = [(path, *(devices.get(path) or _look_at(path))) for path in paths]
    lanes = name_lanes([device for _, device, _ in found])
    return [
        KeptRoot(path, ids.get(path), config.settings_for(path), device, is_remote, lane)
        for (path, device, is_remote), lane in zip(found, lanes, strict=True)
    ]


def _look_at(path: bytes) -> tuple[Device, bool]:
    """Look what a path lies on; a server that does not answer is left to hang in a thread of its own."""
    found: list[tuple[Device, bool]] = []
    thread = threading.Thread(target=lambda: found.append(_ask(path)), name="root", daemon=True)
    thread.start()
    thread.join(_PATIENCE_S)
    return found[0] if found else (_ABSENT, False)


def _ask(path: bytes) -> tuple[Device, bool]:
    try:
        fd = open_root(path)
    except OSError:
        return _ABSENT, False  # whoever scans it says why
    try:
        return find_device(fd), find_capability(fd, path).is_remote
    except OSError:
        return _ABSENT, False
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
    device, _ = _look_at(path)
    disks = _disks_of(device)
    return next((root.lane for root in roots if disks & set(root.lane.split("+"))), "+".join(sorted(disks)))
