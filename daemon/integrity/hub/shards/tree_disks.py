"""
Which disk each machine sees as a shared tree; and what the owner does with a tree: forget, rename, move it.

A tree is the same folder on all machines, but the number of its top folder proves little: that of every ext4 is 2. Each
machine knows the file system by a name of its own, so the hub remembers one for each machine and tree.

D1  A name is learned when a worker brings back a shard of which it found the recorded names.
D2  A machine that was known by a UUID, and comes with another one, gets no work.
D3  A machine that no UUID proves looks for recorded names before it reads a shard (``local_copy``).
D4  Either is one finding about the machine and the tree, which ends when the machine reads the tree again.
D5  Boxes are configured apart from the hub. So a name that is given up is taken from all boxes (``hub.members``): none
    of them makes a new tree of it, and each says why it may not.
"""

from __future__ import annotations

import sqlalchemy as sa

from integrity import program
from integrity.errors import ConfigError, ProtocolError, printable
from integrity.hub.database import replace_rows
from integrity.hub.findings import UNRESOLVED, record_drafts, resolve_ids
from integrity.hub.kinds import HUB_KINDS, HubCertainty, HubFindingKind
from integrity.hub.members import GrantKind
from integrity.hub.replica_words import Draft
from integrity.hub.schema import (
    box,
    box_grant,
    finding,
    shard,
    shard_finding,
    shard_folder,
    shard_worker,
    shared_tree,
    tree_disk,
)
from integrity.jobs.shards.messages import DiskTrust, TreeOffer
from integrity.paths import shell_word
from integrity.same_place import explain_unrecognised, get_plain_name, recognise

ANY_INODE = 0
"""Of a tree that was moved: the next worker says which folder it is. No file has this number."""

_MOST_NAMES, _LONGEST_NAME = 10, 1000
_KIND = HubFindingKind.TREE_OTHER_DISK
_OF_KIND = finding.c.kind == _KIND.value


class OtherDisk(Exception):
    """Say that a machine sees another disk as a tree. Its text says which one instead of which."""


def recognise_disk(c: sa.Connection, tree_id: int, box_id: int, offer: TreeOffer) -> DiskTrust:
    """
    Return how surely a machine sees the disk that it saw before.

    Raises:
        OtherDisk: it sees another one (D2).
        ProtocolError: the offer has no names that a file system can have.
    """
    if not offer.names:
        return DiskTrust.NAME  # an older version, which does not look for recorded names
    if len(offer.names) > _MOST_NAMES or any(not 0 < len(name) <= _LONGEST_NAME for name in offer.names):
        raise ProtocolError("names: these are no names of a file system")
    is_its = tree_disk.c.tree_id == tree_id, tree_disk.c.box_id == box_id
    known = c.execute(sa.select(tree_disk.c.disk).where(*is_its)).scalar()
    if known is None:
        return DiskTrust.NONE
    found = recognise(known, offer.names)
    if found is not None:
        return DiskTrust.DISK if is_proof(found) else DiskTrust.NAME
    if is_proof(known):
        raise OtherDisk(explain_unrecognised(known, offer.names))
    return DiskTrust.NONE


def is_proof(disk: str) -> bool:
    """Return whether the name of a file system proves which one it is: a server may export another under its name."""
    return disk.startswith("uuid:")


def learn_disk(c: sa.Connection, tree_id: int, box_id: int, disk: str, now: int) -> None:
    """Remember which disk a machine read a tree from (D1), and end the finding about it."""
    values = {"disk": printable(disk[:_LONGEST_NAME]), "learned_at": now}
    replace_rows(c, tree_disk, [{"tree_id": tree_id, "box_id": box_id, **values}])
    end_findings(c, "the machine reads the tree again", now, finding.c.tree_id == tree_id, finding.c.box_id == box_id)


def forget_disks(c: sa.Connection, tree_id: int, now: int) -> None:
    """Forget which disks machines saw: the tree was moved, or given up."""
    c.execute(sa.delete(tree_disk).where(tree_disk.c.tree_id == tree_id))
    end_findings(c, "the hub forgot which disk the tree is on", now, finding.c.tree_id == tree_id)


def note_other_disk(c: sa.Connection, tree_id: int, box_id: int, why: str, now: int) -> str:
    """
    Open the finding that a machine sees another disk (D4); return what happened and what to do, for people.

    Args:
        why: which disk it found instead of which, or what it did not find there: a clause.
    """
    name = c.execute(sa.select(shared_tree.c.name).where(shared_tree.c.id == tree_id)).scalar_one()
    box_name = c.execute(sa.select(box.c.name).where(box.c.id == box_id)).scalar_one()
    here, what = printable(box_name), f"{printable(name)} is not what was recorded: {printable(why)}."
    words = (
        f"On {here}, {what}{_name_others(c, tree_id)} Nothing was read there, and no file counts as missing."
        f" Mount the right disk on {here}; its service then continues by itself. If the tree was moved, or most of its"
        " files were deleted on purpose, run on the hub:"
        f" integrity hub tree rebind {shell_word(name)} --moved"
    )
    draft = Draft(
        kind=_KIND,
        certainty=HubCertainty.PROVEN,
        box_id=box_id,
        headline=f"{HUB_KINDS[_KIND].headline.format(box=printable(box_name))}: {printable(name)}",
        explanation=words,
        tree_id=tree_id,
    )
    record_drafts(c, (_OF_KIND, finding.c.tree_id == tree_id, finding.c.box_id == box_id), [draft], now, "")
    return words


def _name_others(c: sa.Connection, tree_id: int) -> str:
    """Return where the tree was last read, for people; empty if nobody is known to have read it."""
    query = sa.select(box.c.name, tree_disk.c.disk).join(box, box.c.id == tree_disk.c.box_id)
    last = query.where(tree_disk.c.tree_id == tree_id).order_by(tree_disk.c.learned_at.desc(), tree_disk.c.box_id)
    row = c.execute(last.limit(1)).first()
    return "" if row is None else f" {printable(row.name)} read it last from {printable(get_plain_name(row.disk))}."


def end_findings(c: sa.Connection, resolution: str, now: int, *which: sa.ColumnElement[bool]) -> None:
    """End findings that a machine sees another disk."""
    ids = c.execute(sa.select(finding.c.id).where(UNRESOLVED, _OF_KIND, *which)).scalars().all()
    resolve_ids(c, ids, resolution, now)


def get_tree_id(c: sa.Connection, name: str, *, locks: bool = True) -> int:
    """Return the number of a tree, or raise ConfigError. ``locks``: its row, until the transaction ends."""
    query = sa.select(shared_tree.c.id).where(shared_tree.c.name == name)
    found = c.execute(query.with_for_update() if locks else query).scalar()
    if found is None:
        trees = program.command("hub tree list")
        raise ConfigError(f"{name}: there is no shared tree with this name; the trees: {trees}")
    return int(found)


def forget_tree(c: sa.Connection, name: str, now: int) -> None:
    """
    Delete a tree with its shards, workers and records, and take its name from all boxes; its findings end.

    The catalogs in the store are named by nothing then, and are removed as all such are.
    """
    tree_id = get_tree_id(c, name)
    open_ids = c.execute(sa.select(finding.c.id).where(finding.c.tree_id == tree_id, UNRESOLVED)).scalars().all()
    resolve_ids(c, open_ids, "the shared tree was forgotten", now)
    forget_disks(c, tree_id, now)
    shards = sa.select(shard.c.id).where(shard.c.tree_id == tree_id)
    c.execute(sa.delete(shard_finding).where(shard_finding.c.shard_id.in_(shards)))
    for table in (shard_folder, shard, shard_worker):
        c.execute(sa.delete(table).where(table.c.tree_id == tree_id))
    c.execute(sa.delete(shared_tree).where(shared_tree.c.id == tree_id))
    c.execute(sa.delete(box_grant).where(box_grant.c.kind == GrantKind.TREE.value, box_grant.c.name == name))


def rename_tree(c: sa.Connection, name: str, new: str) -> None:
    """Give a tree another name that is free; boxes that might work on it still may, under the new name only."""
    tree_id = get_tree_id(c, name)
    if c.execute(sa.select(shared_tree.c.id).where(shared_tree.c.name == new)).first() is not None:
        raise ConfigError(f"{new}: there is a shared tree with this name; choose another one")
    c.execute(sa.update(shared_tree).where(shared_tree.c.id == tree_id).values(name=new))
    of_tree = box_grant.c.kind == GrantKind.TREE.value
    has_new = sa.select(box_grant.c.box_id).where(of_tree, box_grant.c.name == new)
    c.execute(sa.delete(box_grant).where(of_tree, box_grant.c.name == name, box_grant.c.box_id.in_(has_new)))
    c.execute(sa.update(box_grant).where(of_tree, box_grant.c.name == name).values(name=new))


def release_folder(c: sa.Connection, name: str, now: int) -> None:
    """
    Let the next worker that comes say which folder the tree is: it was moved to another file system.

    The records stay, so everything is read against them, and what is not there is missing. Workers have to come again.
    """
    tree_id = get_tree_id(c, name)
    c.execute(sa.update(shared_tree).where(shared_tree.c.id == tree_id).values(inode=ANY_INODE, trusted_at=now))
    forget_disks(c, tree_id, now)
    c.execute(sa.update(shard).where(shard.c.tree_id == tree_id).values(worker_id=None))
    c.execute(sa.delete(shard_worker).where(shard_worker.c.tree_id == tree_id))
