"""Note for each folder of a shard which shard covers the folder above it, so that nobody searches all of the tree."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the column and its index, and fill it."""
    with op.batch_alter_table("shard_folder") as table:
        table.add_column(sa.Column("above_id", _INTEGER, nullable=True))
    op.create_index("shard_folder_above", "shard_folder", ["above_id"])
    folder = sa.table("shard_folder", *map(sa.column, ("tree_id", "path", "shard_id", "above_id")))
    c = op.get_bind()
    owners = {(tree_id, bytes(path)): owner for tree_id, path, owner in c.execute(sa.select(*folder.c[:3]))}
    above = [{"its_tree": tree, "its_path": path, "above": _find_above(owners, tree, path)} for tree, path in owners]
    if above:
        mine = folder.c.tree_id == sa.bindparam("its_tree"), folder.c.path == sa.bindparam("its_path")
        c.execute(sa.update(folder).where(*mine).values(above_id=sa.bindparam("above")), above)


def _find_above(owners: dict[tuple[int, bytes], int], tree_id: int, path: bytes) -> int | None:
    while path:
        path = path.rpartition(b"/")[0]
        if (tree_id, path) in owners:
            return owners[tree_id, path]
    return None
