"""Open a root for a run: is it itself, what can its disk do, what is mounted inside (R5)?"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from integrity.catalog.boots import MountSeen, rename_file_system
from integrity.catalog.repair_journal import find_repairs
from integrity.catalog.roots import set_root_identity
from integrity.errors import RootSuspended, show_path
from integrity.files.capability import find_capability
from integrity.files.devices import Device, find_device
from integrity.files.identity import recognise
from integrity.files.mirrors import Mirror, find_mirror
from integrity.files.mounts import get_mount
from integrity.files.mountstate import find_mount_state
from integrity.jobs.guard import open_guarded
from integrity.jobs.leftout import make_excludes
from integrity.jobs.open_root import find_absent
from integrity.model import Capability, RootIdentity

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.catalog.roots import RootRecord
    from integrity.config import RootSettings

_NOTHING_KNOWN = Capability("unknown", False, False, 0, False, False)
_NO_DEVICE = Device(is_rotational=False, name="", key="")
"""Of a root that is not there."""


@dataclass(frozen=True, slots=True)
class Opened:
    """
    An open root; ``fd`` is -1 if it is not itself, ``suspension`` says why.

    ``mounts``: the root's own mount, at the empty path, and those inside it, by their paths.
    ``absent``: where inside it nothing can be said of the recorded files, and why.
    """

    fd: int
    capability: Capability = _NOTHING_KNOWN
    device: Device = _NO_DEVICE
    mirror: Mirror | None = None
    mounts: dict[bytes, MountSeen] = field(default_factory=dict)
    absent: dict[bytes, str] = field(default_factory=dict)
    suspension: str = ""


def open_disk(catalog: Catalog, root: RootRecord, settings: RootSettings) -> Opened:
    """Open a root; find out what can be expected of its disk, and what is mounted inside. The caller closes it."""
    fd = -1
    try:
        fd, identity = open_guarded(root, _find_out_of_place(catalog, root))
        mounts = {b"": MountSeen(identity.fs_id, *find_mount_state(fd, get_mount(fd)))}
        absent: dict[bytes, str] = {}
        if settings.cross_mounts:
            excludes = make_excludes(settings, root.path, catalog.path)
            absent, nested = find_absent(catalog, root, fd, excludes)
            mounts |= nested
        found = find_capability(fd, root.path), find_device(fd), find_mirror(fd)
        if identity != root.identity:
            _take_over(catalog, root, identity)
        return Opened(fd, *found, mounts, absent)
    except (RootSuspended, OSError) as error:  # also a disk that dies right after it was recognised
        if fd >= 0:
            os.close(fd)
        reason = (
            f"{show_path(root.path)}: its disk does not answer: {error}" if isinstance(error, OSError) else str(error)
        )
        return Opened(-1, suspension=reason)


def _take_over(catalog: Catalog, root: RootRecord, identity: RootIdentity) -> None:
    """Record what a root is recognised by from now on: a surer name, or what a person or the first look said it is."""
    with catalog.transaction() as connection:
        set_root_identity(connection, root.id, identity)
        if recognise(root.identity.fs_id, identity.names) is not None:
            rename_file_system(connection, root.identity.fs_id, identity.fs_id)


def _find_out_of_place(catalog: Catalog, root: RootRecord) -> frozenset[bytes]:
    """
    Name the files in the root's own folder that a repair, cut short, had put out of the way of the good ones.

    Where names can't be exchanged it may have been the only file; the run ends the repair before it looks at anything.
    """
    with catalog.read() as connection:
        repairs = find_repairs(connection, root)
    return frozenset(place.kept for repair in repairs for place in repair.places if not place.folder)
