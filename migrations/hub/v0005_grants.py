"""Note which replica sets and shared trees a box may be in; those of before may go on with what they were in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_WORKED = ("tree_cut", "shard_stored", "shard_given_back", "shard_lost")
"""What the audit log says of the workers of a box; those that ended have no rows any more."""


def upgrade() -> None:
    """Add the table and the column, and fill the table."""
    op.create_table(
        "box_grant",
        sa.Column("box_id", _INTEGER, sa.ForeignKey("box.id"), nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("box_id", "kind", "name"),
    )
    op.add_column("member", sa.Column("refused_set", sa.Text, nullable=True))
    op.execute(
        "INSERT INTO box_grant (box_id, kind, name) SELECT DISTINCT m.box_id, 'set', s.name"
        " FROM member AS m JOIN replica_set AS s ON s.id = m.set_id"
    )
    op.execute(
        "INSERT INTO box_grant (box_id, kind, name) SELECT DISTINCT w.box_id, 'tree', t.name"
        " FROM shard_worker AS w JOIN shared_tree AS t ON t.id = w.tree_id"
    )
    _add_former_workers()


def _add_former_workers() -> None:
    """Add the trees that boxes worked on, as the audit log says: who is "box:NAME", the subject "TREE: shard N"."""
    bind = op.get_bind()
    audit = sa.table("audit", *map(sa.column, ("who", "verb", "subject")))
    grant = sa.table("box_grant", *map(sa.column, ("box_id", "kind", "name")))
    boxes = {f"box:{name}": number for number, name in bind.execute(sa.text("SELECT id, name FROM box"))}
    trees = {name for (name,) in bind.execute(sa.text("SELECT name FROM shared_tree"))}
    known = {tuple(row) for row in bind.execute(sa.select(grant.c.box_id, grant.c.kind, grant.c.name))}
    worked = sa.select(audit.c.who, audit.c.subject).where(audit.c.verb.in_(_WORKED)).distinct()
    for who, subject in bind.execute(worked).all():
        tree = subject if subject in trees else subject.rpartition(": shard ")[0]
        row = (boxes.get(who), "tree", tree)
        if who in boxes and tree in trees and row not in known:
            known.add(row)
            op.execute(sa.insert(grant).values(box_id=row[0], kind=row[1], name=row[2]))
