"""
The same place: whether a file system, its disk and a folder are those that were recorded (R5).

A file system has several names, and not every process sees all of them. Strongest first:

    uuid:UUID[#FACTS]  the UUID, on btrfs with ``/`` and that of the subvolume; FACTS tell clones of a disk apart
    fsid:...           statfs(2) f_fsid of ext2, ext3 and ext4, computed from the UUID: proves a recorded UUID
    TYPE:SOURCE        what was mounted (``nfs4:server:/export``); of a pool: its members

A folder has a number: its inode, or one made of its path in the file system where inode numbers do not last. Numbers of
different kinds can't be compared: one was recorded by a driver, or a version of this program, that the other was not.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_UUID, _FSID = "uuid:", "fsid:"

_POOLS = frozenset({"fuse.mergerfs", "fuse.mhddfs", "fuse.unionfs"})
"""Types whose source lists the members, which come and go while the pool stays the same."""

FACTS = ("wwid", "serial", "usb", "size")
"""What may be known of a disk, surest first: the first fact that is known of both disks decides."""

# Numbers made of paths have these 16 bits in front; inode numbers, if they are no counters, are spread over 64 bits.
_PATH_MARK, _PATH_BITS = -0x4B1D, 48


def make_path_number(path: bytes) -> int:
    """Return the number of a folder made of its path in the file system: a signed integer of 64 bits."""
    from hashlib import blake2b  # here, for most file systems have inode numbers that last

    return (_PATH_MARK << _PATH_BITS) | int.from_bytes(blake2b(path, digest_size=_PATH_BITS // 8).digest(), "big")


def is_path_number(folder: int) -> bool:
    """Return whether the number of a folder was made of its path."""
    return folder >> _PATH_BITS == _PATH_MARK


def may_be_same_folder(recorded: int, seen: int) -> bool:
    """Return whether two numbers, in the same file system, are of one folder, or can't be compared."""
    return recorded == seen or is_path_number(recorded) is not is_path_number(seen)


class _Name(NamedTuple):
    base: str
    facts: Mapping[str, str]

    @property
    def disk(self) -> str:
        """The name without the subvolume."""
        return self.base.partition("/")[0] if self.base.startswith(_UUID) else self.base

    @property
    def spelling(self) -> str:
        if not self.facts:
            return self.base
        from urllib.parse import quote  # here, for few file systems have more than a UUID

        facts = ",".join(f"{key}={quote(value, safe=':.-')}" for key, value in sorted(self.facts.items()))
        return f"{self.base}#{facts}"


def _split(name: str) -> _Name:
    if not name.startswith(_UUID):
        return _Name(name, {})
    base, _, text = name.partition("#")
    if not text:
        return _Name(base, {})
    from urllib.parse import unquote

    pairs = (fact.partition("=") for fact in text.split(",") if fact)
    return _Name(base, {key: unquote(value) for key, _, value in pairs})


def name_by_uuid(value: str, subvolume: str | None, facts: Mapping[str, str]) -> str:
    """Return the name of a file system by its UUID, that of the subvolume, and what is known of its disk."""
    return _Name(f"{_UUID}{value}/{subvolume}" if subvolume else f"{_UUID}{value}", facts).spelling


def name_by_fsid(value: int) -> str:
    """Return the name of a file system of the ext family by its f_fsid."""
    return f"{_FSID}{value:016x}"


def get_plain_name(name: str) -> str:
    """Return the name of a file system without the facts of its disk."""
    return _split(name).base


def recognise(recorded: str, names: Sequence[str]) -> str | None:
    """
    Decide whether a file system is the recorded one.

    Args:
        recorded: its name when it was recorded.
        names: all that are visible now, strongest first.

    Returns:
        The strongest known name, to record from now on; None if it is another file system or disk, or cannot be proved
        to be the same.
    """
    known, seen = _split(recorded), _split(names[0])
    if known.base == seen.base:
        return seen._replace(facts={**known.facts, **seen.facts}).spelling if _agree(known.facts, seen.facts) else None
    if recorded in names:
        return names[0]
    if _make_fsid(known.base) in names:
        return recorded
    return names[0] if is_same_pool_type(recorded, names) and _members(recorded) & _members(names[-1]) else None


def _agree(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    decisive = next((fact for fact in FACTS if fact in one and fact in other), None)
    return decisive is None or one[decisive] == other[decisive]


def is_same_pool_type(recorded: str, names: Sequence[str]) -> bool:
    """Return whether a recorded name and those visible now are of pools of one type, whatever their members."""
    fs_type = recorded.partition(":")[0]
    return fs_type in _POOLS and fs_type == names[-1].partition(":")[0]


def _members(name: str) -> set[str]:
    return set(name.split(":")[1:])


def is_same_disk(one: str, names: Sequence[str]) -> bool:
    """Return whether a file system is that of another name, whatever the subvolumes: one disk failure takes both."""
    disks = [_split(name) for name in (one, *names)]
    recorded, *seen = (disk._replace(base=disk.disk).spelling for disk in disks)
    return recognise(recorded, seen) is not None


def spell_folder(names: Sequence[str], folder: int) -> str:
    """Return one text that identifies a folder: its file system and its number."""
    return f"{names[0]} {folder}"


def get_fs_name(folder: str) -> str:
    """Return the file system's name from a text that ``spell_folder`` made."""
    return folder.rpartition(" ")[0]


def recognise_folder(recorded: str, names: Sequence[str], folder: int) -> str | None:
    """
    Decide, as ``recognise`` does, whether a folder is the one that ``spell_folder`` described.

    Returns:
        The text to record from now on, or None.
    """
    name, _, number = recorded.rpartition(" ")
    if not number.lstrip("-").isdigit() or not may_be_same_folder(int(number), folder):
        return None
    strongest = recognise(name, names)
    return None if strongest is None else spell_folder((strongest,), folder)


def explain_unrecognised(recorded: str, names: Sequence[str]) -> str:
    """Explain why a file system was not recognized: it is another one, or its identity cannot be proved."""
    known, seen = _split(recorded), _split(names[0])
    if known.base == seen.base:
        return (
            f"a different disk with the same UUID is mounted ({_describe(seen)} instead of {_describe(known)}): a clone"
            " of the disk, or the disk in another enclosure or resized"
        )
    if known.base.startswith(_UUID) and not seen.base.startswith(_UUID):
        return (
            f"the file system there can't be identified: its UUID is not visible ({seen.base} instead of {known.base});"
            " run this where /run/udev or /dev/disk/by-uuid is visible"
        )
    return f"the disk is not mounted, or a different one is ({seen.base} instead of {known.base})"


def _describe(name: _Name) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(name.facts.items()))


def _make_fsid(name: str) -> str | None:
    """Compute ext4's statfs(2) f_fsid from a UUID: XOR of its two halves, each little-endian."""
    if not name.startswith(_UUID):
        return None
    try:
        value = uuid.UUID(name.removeprefix(_UUID)).bytes
    except ValueError:
        return None  # a FAT or NTFS id, or one with a subvolume
    return name_by_fsid(int.from_bytes(value[:8], "little") ^ int.from_bytes(value[8:], "little"))
