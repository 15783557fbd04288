"""Boots of the machine: whether it went down cleanly since a file was last found intact (R2)."""

from __future__ import annotations

import sqlalchemy as sa

from integrity.catalog.tables import boot


def ensure_boot(c: sa.Connection, uuid: str, now: int) -> int:
    """
    Get the number of the boot that the machine is in, writing it down if it is new.

    A clean-stop mark on it is taken back: whoever set it was wrong about the end, since a program of ours runs again.
    """
    row = c.execute(sa.select(boot).where(boot.c.uuid == uuid)).one_or_none()
    if row is None:
        key = c.execute(sa.insert(boot).values(uuid=uuid, first_seen_at=now)).inserted_primary_key
        assert key is not None
        return int(key[0])
    if row.stopped_cleanly_at is not None:
        c.execute(sa.update(boot).where(boot.c.id == row.id).values(stopped_cleanly_at=None))
    return int(row.id)


def mark_clean_stop(c: sa.Connection, uuid: str, now: int) -> None:
    """Write down that the boot ends in order: all that was written to files has reached the disk."""
    c.execute(sa.update(boot).where(boot.c.uuid == uuid).values(stopped_cleanly_at=now))


def was_unclean_since(c: sa.Connection, boot_id: int | None, current_id: int) -> bool:
    """
    Say whether any boot from ``boot_id`` up to the one before the current lacks the clean-stop mark.

    Without a ``boot_id`` nothing is known, so the answer is yes.
    """
    if boot_id is None:
        return True
    unclean = sa.exists().where(boot.c.id >= boot_id, boot.c.id < current_id, boot.c.stopped_cleanly_at.is_(None))
    return bool(c.execute(sa.select(unclean)).scalar_one())
