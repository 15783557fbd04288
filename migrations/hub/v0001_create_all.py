"""Create the tables of the hub, in PostgreSQL or SQLite."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _id() -> sa.Column[Any]:
    return sa.Column("id", _INTEGER, sa.Identity(), primary_key=True)


def _int(name: str, *args: Any, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, _INTEGER, *args, nullable=null)


def _small(name: str, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.SmallInteger, nullable=False, **options)


def _text(name: str, *args: Any, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.Text, *args, nullable=null)


def _blob(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.LargeBinary, nullable=null)


def upgrade() -> None:
    """Create all tables."""
    _create_boxes()
    _create_sets()
    _create_reports()
    _create_findings()
    _create_votes()
    _create_shards()


def _create_boxes() -> None:
    op.create_table(
        "box",
        _id(),
        _text("name", sa.CheckConstraint("name <> ''")),
        _blob("token_hash"),
        _int("created_at"),
        _int("revoked_at", null=True),
        _int("seen_at", null=True),
        _int("clock_ahead_s", null=True),
        _text("hostname", null=True),
        _text("version", null=True),
        _text("sentence", null=True),
        _text("state", null=True),
        _blob("stream", null=True),
        _int("last_number"),
        _blob("last_chain"),
        _int("repeats_until", null=True),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("token_hash"),
    )
    op.create_table(
        "box_stream",
        _int("box_id", sa.ForeignKey("box.id")),
        _blob("stream"),
        _int("began_at"),
        sa.PrimaryKeyConstraint("box_id", "stream"),
    )
    op.create_table(
        "audit",
        _id(),
        _int("at"),
        _text("who"),
        _text("address"),
        _text("verb"),
        _text("subject"),
        _text("outcome"),
    )


def _create_sets() -> None:
    op.create_table(
        "replica_set",
        _id(),
        _text("name"),
        _int("created_at"),
        _int("changed_at", null=True),
        _int("voted_at", null=True),
        _int("vote_ms", null=True),
        _small("is_waiting", server_default="0"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "member",
        _id(),
        _int("box_id", sa.ForeignKey("box.id")),
        _int("root_id"),
        _int("set_id", sa.ForeignKey("replica_set.id"), null=True),
        _blob("path"),
        _text("url"),
        _text("excludes"),
        _text("policy"),
        _int("verify_every_s"),
        _int("file_count"),
        _int("byte_count"),
        _int("oldest_verified_at", null=True),
        _blob("announced_tree", null=True),
        _blob("settled_tree", null=True),
        _int("settled_at", null=True),
        _int("removed_at", null=True),
        sa.UniqueConstraint("box_id", "root_id"),
    )
    op.create_index("member_set", "member", ["set_id"])
    op.create_table(
        "folder",
        _id(),
        _int("set_id", sa.ForeignKey("replica_set.id")),
        _blob("path"),
        sa.UniqueConstraint("set_id", "path"),
    )
    op.create_table(
        "member_folder",
        _int("member_id", sa.ForeignKey("member.id")),
        _int("folder_id", sa.ForeignKey("folder.id")),
        _int("parent_id", null=True),
        _blob("own"),
        _blob("content"),
        _blob("subtree"),
        _small("is_checked", server_default="1"),
        sa.PrimaryKeyConstraint("member_id", "folder_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("member_folder_folder", "member_folder", ["folder_id"])
    op.create_index("member_folder_parent", "member_folder", ["member_id", "parent_id"])
    op.create_index(
        "member_folder_unchecked",
        "member_folder",
        ["member_id"],
        sqlite_where=sa.text("is_checked = 0"),
        postgresql_where=sa.text("is_checked = 0"),
    )
    for name in ("file", "file_part"):
        op.create_table(
            name,
            _int("member_id"),
            _int("folder_id"),
            _blob("name"),
            _int("size_bytes"),
            _int("mtime_ns"),
            _blob("md5", null=True),
            _blob("xxh3_128", null=True),
            _int("recorded_at"),
            _int("verified_at", null=True),
            _small("read_how"),
            _small("flags"),
            sa.PrimaryKeyConstraint("member_id", "folder_id", "name"),
            sqlite_with_rowid=False,
        )


def _create_reports() -> None:
    op.create_table(
        "box_finding",
        _int("box_id", sa.ForeignKey("box.id")),
        _blob("stream"),
        _int("number"),
        _int("root_id", null=True),
        _blob("path", null=True),
        _text("kind"),
        _text("state"),
        _text("certainty", null=True),
        _int("opened_at"),
        _int("resolved_at", null=True),
        _text("body"),
        sa.PrimaryKeyConstraint("box_id", "number", "opened_at"),
    )
    op.create_index("box_finding_path", "box_finding", ["box_id", "root_id", "path"])
    op.create_index(
        "box_finding_unresolved",
        "box_finding",
        ["box_id", "number"],
        sqlite_where=sa.text("resolved_at IS NULL"),
        postgresql_where=sa.text("resolved_at IS NULL"),
    )
    op.create_table(
        "box_event",
        _id(),
        _int("box_id", sa.ForeignKey("box.id")),
        _int("at"),
        _text("kind"),
        _int("root_id", null=True),
        _text("body"),
    )
    op.create_index("box_event_at", "box_event", ["box_id", "at"])


def _create_findings() -> None:
    op.create_table(
        "finding",
        _id(),
        _text("kind"),
        _text("certainty"),
        _int("set_id", sa.ForeignKey("replica_set.id"), null=True),
        _int("tree_id", null=True),
        _int("box_id", sa.ForeignKey("box.id"), null=True),
        _blob("path"),
        _text("state"),
        _int("opened_at"),
        _int("updated_at"),
        _int("resolved_at", null=True),
        _text("resolution", null=True),
        _int("muted_until", null=True),
        _text("headline"),
        _text("explanation"),
        _text("command", null=True),
        _int("command_box_id", sa.ForeignKey("box.id"), null=True),
        _text("evidence"),
        _text("alerted", null=True),
    )
    op.create_index(
        "finding_unresolved",
        "finding",
        [
            "kind",
            sa.text("coalesce(set_id, 0)"),
            sa.text("coalesce(tree_id, 0)"),
            sa.text("coalesce(box_id, 0)"),
            "path",
        ],
        unique=True,
        sqlite_where=sa.text("resolved_at IS NULL"),
        postgresql_where=sa.text("resolved_at IS NULL"),
    )


def _create_votes() -> None:
    op.create_table(
        "former_file",
        _id(),
        _int("member_id"),
        _int("folder_id"),
        _blob("name"),
        _int("size_bytes"),
        _blob("md5", null=True),
        _blob("xxh3_128", null=True),
        _int("replaced_at"),
    )
    op.create_index("former_file_name", "former_file", ["member_id", "folder_id", "name"])
    op.create_index("former_file_replaced_at", "former_file", ["replaced_at"])
    op.create_table(
        "alert_channel",
        _text("name", sa.CheckConstraint("name <> ''")),
        _int("good_at", null=True),
        _int("failing_since", null=True),
        _int("attempts"),
        _int("next_try_at", null=True),
        _text("last_error", null=True),
        _int("digest_at", null=True),
        _text("incident_times"),
        sa.PrimaryKeyConstraint("name"),
    )


def _create_shards() -> None:
    op.create_table(
        "shared_tree",
        _id(),
        _text("name"),
        _int("created_at"),
        _int("inode"),
        _text("settings"),
        _int("verify_every_s"),
        _int("surveyed_at", null=True),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "shard",
        _id(),
        _int("tree_id", sa.ForeignKey("shared_tree.id")),
        _int("job_id"),
        _int("version"),
        _text("digest", null=True),
        _text("former_digest", null=True),
        _int("stored_by", null=True),
        _int("created_at"),
        _int("round_at", null=True),
        _int("is_complete"),
        _int("visited_at", null=True),
        _int("due_at"),
        _int("file_count"),
        _int("byte_count"),
        _int("oldest_at", null=True),
        _int("apart_bytes"),
        _int("read_bytes"),
        _int("read_ms"),
        _text("trouble", null=True),
    )
    op.create_index("shard_tree", "shard", ["tree_id", "due_at"])
    op.create_table(
        "shard_folder",
        _int("tree_id", sa.ForeignKey("shared_tree.id")),
        _blob("path"),
        _int("shard_id", sa.ForeignKey("shard.id")),
        sa.PrimaryKeyConstraint("tree_id", "path"),
    )
    op.create_index("shard_folder_shard", "shard_folder", ["shard_id"])
    op.create_table(
        "shard_finding",
        _int("shard_id", sa.ForeignKey("shard.id")),
        _int("number"),
        _blob("path"),
        _text("kind"),
        _int("opened_at"),
        _text("body"),
        sa.PrimaryKeyConstraint("shard_id", "number"),
    )
    op.create_index("shard_finding_path", "shard_finding", ["path"])
    op.create_table(
        "shard_worker",
        _int("id"),
        _int("tree_id", sa.ForeignKey("shared_tree.id")),
        _int("box_id", sa.ForeignKey("box.id")),
        _int("began_at"),
        _int("seen_at"),
        _int("shard_id", null=True),
        _int("done_bytes"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("shard_worker_tree", "shard_worker", ["tree_id"])
