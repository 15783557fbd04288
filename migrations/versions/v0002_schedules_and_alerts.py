"""
Add tables for the daemon: schedule runs, messages and their deliveries, channels, and sent notifications.

Existing rows are not changed.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the six tables."""
    _create_alert()
    _create_channel()
    _create_configured_root()
    _create_schedule_run()
    _create_told()
    _create_delivery()


def _create_alert() -> None:
    op.create_table(
        "alert",
        sa.Column("id", _INTEGER, primary_key=True, nullable=False, comment="number of the message"),
        sa.Column("kind", sa.Text(), nullable=False, comment="AlertKind"),
        sa.Column(
            "message_id",
            sa.Text(),
            nullable=False,
            comment="Message-ID of its mails: the same however often it is sent",
        ),
        sa.Column("subject", sa.Text(), nullable=False, comment="one line for people"),
        sa.Column("body", sa.Text(), nullable=False, comment="the message as plain text"),
        sa.Column("html", sa.Text(), nullable=False, comment="the message as HTML"),
        sa.Column("facts", sa.Text(), nullable=False, comment="the message for programs, JSON"),
        sa.Column(
            "incidents",
            sa.Text(),
            nullable=False,
            comment="numbers of the findings that it is about, with blanks between them",
        ),
        sa.Column("created_at", _INTEGER, nullable=False, comment="when it was written; the Date of its mails"),
        sa.UniqueConstraint("message_id"),
        sqlite_strict=True,
    )


def _create_channel() -> None:
    op.create_table(
        "channel",
        sa.Column("name", sa.Text(), nullable=False, comment="name of the channel"),
        sa.Column("first_seen_at", _INTEGER, nullable=False, comment="when it was first configured"),
        sa.Column("good_at", _INTEGER, nullable=True, comment="when it last worked; null: never"),
        sa.Column(
            "failing_since", _INTEGER, nullable=True, comment="first failure since it last worked; null: it works"
        ),
        sa.Column("failed_at", _INTEGER, nullable=True, comment="last failure; null: it works"),
        sa.Column("is_permanent", _INTEGER, nullable=False, comment="1: the failure will not pass by itself"),
        sa.Column("last_error", sa.Text(), nullable=True, comment="why it failed last, for people; null: it works"),
        sa.Column(
            "told_at", _INTEGER, nullable=True, comment="when the failure was told through others; null: not yet"
        ),
        sa.PrimaryKeyConstraint("name"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def _create_configured_root() -> None:
    op.create_table(
        "configured_root",
        sa.Column(
            "root_id",
            _INTEGER,
            sa.ForeignKey("root.id"),
            primary_key=True,
            autoincrement=False,
            comment="a root that the service has seen in its configuration: taken out of there it is paused",
        ),
        sqlite_strict=True,
    )


def _create_schedule_run() -> None:
    op.create_table(
        "schedule_run",
        sa.Column("id", _INTEGER, primary_key=True, nullable=False, comment="number of the entry"),
        sa.Column("schedule", sa.Text(), nullable=False, comment="which schedule: scan, scrub, compare, ..."),
        sa.Column(
            "root_id", _INTEGER, nullable=True, comment="the root that it was for; null: for all. It may be gone"
        ),
        sa.Column(
            "due_at", _INTEGER, nullable=True, comment="when it should have begun; null: asked for, not scheduled"
        ),
        sa.Column("started_at", _INTEGER, nullable=False, comment="when it began"),
        sa.Column("finished_at", _INTEGER, nullable=True, comment="when it ended; null: it works, or died"),
        sa.Column("outcome", sa.Text(), nullable=True, comment="how it ended; null: it works, or died"),
        sqlite_strict=True,
    )
    op.create_index("schedule_run_last", "schedule_run", ["schedule", "root_id", "started_at"])


def _create_told() -> None:
    op.create_table(
        "told",
        sa.Column(
            "finding_id",
            _INTEGER,
            primary_key=True,
            autoincrement=False,
            nullable=False,
            comment="the finding that was told",
        ),
        sa.Column("certainty", sa.Text(), nullable=True, comment="its certainty as told"),
        sa.Column("blocks", sa.Text(), nullable=False, comment="its blocks as told"),
        sa.Column("ranges", sa.Text(), nullable=False, comment="its ranges as told"),
        sa.Column("first_told_at", _INTEGER, nullable=False, comment="when it was told first"),
        sa.Column(
            "swallowed_by",
            _INTEGER,
            nullable=True,
            comment="device_failing finding that was told in its place; null: told itself",
        ),
        sqlite_strict=True,
    )


def _create_delivery() -> None:
    op.create_table(
        "delivery",
        sa.Column("alert_id", _INTEGER, sa.ForeignKey("alert.id"), nullable=False, comment="the message"),
        sa.Column("channel", sa.Text(), nullable=False, comment="name of the channel that it shall go through"),
        sa.Column("attempts", _INTEGER, nullable=False, comment="how often sending it failed"),
        sa.Column("next_try_at", _INTEGER, nullable=False, comment="not to be tried before"),
        sa.Column("sent_at", _INTEGER, nullable=True, comment="when the channel took it; null: not yet"),
        sa.Column("last_error", sa.Text(), nullable=True, comment="why the last attempt failed, for people"),
        sa.PrimaryKeyConstraint("alert_id", "channel"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
