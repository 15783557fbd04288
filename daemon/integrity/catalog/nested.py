"""What is mounted inside a root that crosses mounts: each is recognised like a root (R5)."""

from __future__ import annotations

import sqlalchemy as sa

from integrity.catalog.schema import nested_mount
from integrity.model import RootId


def find_nested(c: sa.Connection, root_id: RootId) -> dict[bytes, str]:
    """List where something was mounted when it was last scanned, and what it was recognised by."""
    query = sa.select(nested_mount.c.path, nested_mount.c.identity).where(nested_mount.c.root_id == root_id)
    return {row.path: row.identity for row in c.execute(query)}


def keep_nested(c: sa.Connection, root_id: RootId, path: bytes, identity: str) -> None:
    """Write down what is mounted at a path."""
    drop_nested(c, root_id, path)
    c.execute(sa.insert(nested_mount).values(root_id=root_id, path=path, identity=identity))


def drop_nested(c: sa.Connection, root_id: RootId, path: bytes) -> None:
    """Forget that something was mounted at a path."""
    c.execute(sa.delete(nested_mount).where(nested_mount.c.root_id == root_id, nested_mount.c.path == path))
