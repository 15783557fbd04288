"""
Boots of the machine and mounts of file systems: whether one may have crashed since a file was last intact (R2).

A row without a file system stands for a boot as a whole, any other for one mount of one file system in a boot. Rows are
numbered in the order they were seen. A file refers to the newest row of any kind when it was verified, so one number
for a whole run says in which boot, and in which mount of each file system, that was.

I1  A row that has a successor (the next boot, the next mount of the same file system) and no mark of a clean end may
    have ended in a crash.
I2  A mark is set when the machine goes down in order, on what was mounted then. It is taken back when the boot or the
    mount goes on, and when the file system was mounted by somebody else before it was seen again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import NamedTuple

import sqlalchemy as sa

from integrity.catalog.schema import boot


class MountSeen(NamedTuple):
    """A mount of a file system that a run works on."""

    fs_id: str  # name of the file system
    mount: str  # which mount of it in this boot; empty if that can't be told
    mount_count: int | None  # how often it was mounted for writing, if it says so


class Interruption(NamedTuple):
    """What may have been a crash."""

    is_of_machine: bool  # the machine was started again; else the file system alone was mounted again
    seen_at: int | None  # when a run first met what came after it; None: nothing is known


def ensure_boot(c: sa.Connection, uuid: str, now: int) -> int:
    """
    Get the number of the boot that the machine is in, writing it down if it is new.

    Clean-stop marks in it are taken back: whoever set them was wrong about the end, since a program of ours runs again.
    """
    row = c.execute(sa.select(boot).where(boot.c.uuid == uuid, boot.c.fs_id == "")).one_or_none()
    if row is None:
        return _insert(c, uuid, MountSeen("", "", None), now)
    if row.stopped_cleanly_at is not None:
        c.execute(sa.update(boot).where(boot.c.uuid == uuid).values(stopped_cleanly_at=None))
    return int(row.id)


def ensure_mounts(c: sa.Connection, uuid: str, mounts: Iterable[MountSeen], now: int) -> int:
    """
    Write down which mounts a run works on, where they are new; return the number of the newest row.

    Args:
        c: in a transaction.
        uuid: of the running boot.
        mounts: of the run's root, and of what is mounted inside it.
        now: the time.
    """
    ensure_boot(c, uuid, now)
    for seen in mounts:
        _ensure_mount(c, uuid, seen, now)
    return int(c.execute(sa.select(sa.func.max(boot.c.id))).scalar_one())


def find_last_mounts(c: sa.Connection, uuid: str) -> dict[int, str]:
    """List the numbers of the mounts that were last seen of each file system, if that was in this boot."""
    last = sa.select(sa.func.max(boot.c.id)).where(boot.c.fs_id != "").group_by(boot.c.fs_id)
    query = sa.select(boot.c.id, boot.c.mount).where(boot.c.id.in_(last), boot.c.uuid == uuid)
    return {row.id: row.mount for row in c.execute(query)}


def mark_clean_stop(c: sa.Connection, uuid: str, now: int, mounts: Collection[int] = ()) -> None:
    """
    Write down that the boot ends in order: all that was written to files has reached the disk.

    ``mounts``: numbers of those that are still there: the end of the boot ends them, too.
    """
    rows = c.execute(sa.select(boot.c.id).where(boot.c.uuid == uuid, boot.c.fs_id == "")).scalars()
    _set_mark(c, [*rows, *mounts], now)


def rename_file_system(c: sa.Connection, old: str, new: str) -> None:
    """Follow a file system of which a surer name is known."""
    c.execute(sa.update(boot).where(boot.c.fs_id == old).values(fs_id=new))


def find_interruption(c: sa.Connection, boot_id: int | None, fs_id: str) -> Interruption | None:
    """
    Find what may have been a crash of a file system since a file on it was last found intact; None if nothing was.

    Args:
        c: a connection; the running boot and the present mount have been written down.
        boot_id: what the file refers to; without it nothing is known, so anything may have happened.
        fs_id: name of the file system.
    """
    if boot_id is None:
        return Interruption(is_of_machine=True, seen_at=None)
    rows = c.execute(sa.select(boot).where(boot.c.fs_id.in_(("", fs_id))).order_by(boot.c.id)).all()
    for chain in ("", fs_id):
        own = [row for row in rows if row.fs_id == chain]
        begin = max((row.id for row in own if row.id <= boot_id), default=0)
        for ended, following in pairwise(row for row in own if row.id >= begin):
            if ended.stopped_cleanly_at is None:
                return Interruption(chain == "", following.first_seen_at)
    return None


def _ensure_mount(c: sa.Connection, uuid: str, seen: MountSeen, now: int) -> None:
    known = c.execute(sa.select(boot).where(boot.c.fs_id == seen.fs_id).order_by(boot.c.id.desc())).all()
    last = known[0] if known else None
    for row in known:  # mostly the last; not if two programs see different boots, as in containers
        is_same = row.mount == seen.mount or (row is last and "" in (row.mount, seen.mount))
        if row.uuid == uuid and is_same:
            if seen.mount_count not in (None, row.mount_count):
                c.execute(sa.update(boot).where(boot.c.id == row.id).values(mount_count=seen.mount_count))
            return
    if last is not None and _was_mounted_between(last.mount_count, seen.mount_count):
        _set_mark(c, [last.id], None)
    _insert(c, uuid, seen, now)


def _was_mounted_between(before: int | None, count: int | None) -> bool:
    """Say whether somebody else mounted a file system. A full check (fsck) begins the count anew: it had a reason."""
    return before is not None and count is not None and count not in (before, before + 1)  # the same: read-only now


def _insert(c: sa.Connection, uuid: str, seen: MountSeen, now: int) -> int:
    key = c.execute(sa.insert(boot).values(uuid=uuid, **seen._asdict(), first_seen_at=now)).inserted_primary_key
    assert key is not None
    return int(key[0])


def _set_mark(c: sa.Connection, ids: Collection[int], at: int | None) -> None:
    c.execute(sa.update(boot).where(boot.c.id.in_(ids)).values(stopped_cleanly_at=at))
