"""
What the owner of a hub does with a shared tree: forget it, rename it, or have it read at another place.

The boxes are configured apart from the hub. So a name that is given up is taken from all boxes (``hub.grants``): none
of them makes a new tree of it, and each says why it may not.
"""

from __future__ import annotations

import sqlalchemy as sa

from integrity import program
from integrity.errors import ConfigError
from integrity.hub.findings import UNRESOLVED, resolve_ids
from integrity.hub.grants import GrantKind
from integrity.hub.schema import box_grant, finding, shard, shard_finding, shard_folder, shard_worker, shared_tree
from integrity.hub.shards.tree_disks import forget_disks
from integrity.hub.shards.workers import ANY_INODE


def get_tree_id(c: sa.Connection, name: str, *, locks: bool = True) -> int:
    """
    Return the number of a tree. ``locks``: its row is locked until the transaction ends.

    Raises:
        ConfigError: there is none with this name.
    """
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

    Raises:
        ConfigError: there is no such tree.
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
    """
    Give a tree another name; boxes that might work on it still may, under the new name only.

    Raises:
        ConfigError: there is no such tree, or the new name is taken.
    """
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

    Raises:
        ConfigError: there is no such tree.
    """
    tree_id = get_tree_id(c, name)
    c.execute(sa.update(shared_tree).where(shared_tree.c.id == tree_id).values(inode=ANY_INODE, trusted_at=now))
    forget_disks(c, tree_id, now)
    c.execute(sa.update(shard).where(shard.c.tree_id == tree_id).values(worker_id=None))
    c.execute(sa.delete(shard_worker).where(shard_worker.c.tree_id == tree_id))
