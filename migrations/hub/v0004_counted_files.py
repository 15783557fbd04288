"""Count the files of a finding, and note when a box last worked on a shared tree; all sets vote once more."""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Add the columns, and fill them."""
    op.add_column("finding", sa.Column("subjects", _INTEGER, nullable=False, server_default="1"))
    op.add_column("box", sa.Column("worked_at", _INTEGER, nullable=True))
    _count_files()
    op.execute(
        "UPDATE box SET worked_at = (SELECT max(w.seen_at) FROM shard_worker AS w WHERE w.box_id = box.id)"
        " WHERE EXISTS (SELECT 1 FROM shard_worker AS w WHERE w.box_id = box.id)"
    )
    # Files that are gone have a kind of their own since: the votes give it to them.
    op.execute("UPDATE replica_set SET changes = changes + 1 WHERE changes > 0")


def _count_files() -> None:
    """Count the files of findings that stand for many, as their evidence says."""
    finding = sa.table("finding", *map(sa.column, ("id", "set_id", "path", "evidence", "resolved_at", "subjects")))
    where = finding.c.set_id.is_not(None), finding.c.path == b"", finding.c.resolved_at.is_(None)
    for number, evidence in op.get_bind().execute(sa.select(finding.c.id, finding.c.evidence).where(*where)).all():
        rows = json.loads(evidence)
        files = rows[0].get("files") if rows else None
        if isinstance(files, int) and files > 0:
            op.execute(sa.update(finding).where(finding.c.id == number).values(subjects=files))
