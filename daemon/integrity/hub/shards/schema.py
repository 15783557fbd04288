"""
The tables of shared trees. They are created by the hub's migrations with all others.

S1  Each folder of a tree is in at most one row of ``shard_folder``; a name belongs to the shard with the deepest folder
    above it. ``above_id`` follows from that: it is the shard that the folder would belong to without its row.
S2  ``shard.version`` counts the catalogs that were stored of a shard. It grows by one with each, in the transaction
    that names the catalog's file, and only for the worker that holds the shard.
S3  A tree has a shard from its beginning. Until the tree is surveyed, who holds that one does the survey.
"""

from __future__ import annotations

import sqlalchemy as sa

from integrity.hub.schema import column_blob, column_id, column_int, column_text, metadata

shared_tree = sa.Table(
    "shared_tree",
    metadata,
    column_id("number of the tree"),
    column_text("name", "[[root]] shared of its workers"),
    column_int("created_at", "when the first worker came"),
    column_int("inode", "inode of its top folder: a worker that sees another one mounted something else; 0: any"),
    column_text("settings", "the root's settings that all workers must agree on, JSON"),
    column_int("verify_every_s", "the promise: every byte is read within this time"),
    column_int("surveyed_at", "when it was cut into shards; null: not yet", null=True),
    column_int("trusted_at", "shards last read before are read wherever they are; null: see tree_disks.py", null=True),
    sa.UniqueConstraint("name"),
)

tree_disk = sa.Table(
    "tree_disk",
    metadata,
    column_int("tree_id", "the tree", sa.ForeignKey("shared_tree.id")),
    column_int("box_id", "a machine that read it", sa.ForeignKey("box.id")),
    column_text("disk", "its name of the file system, see same_place.py"),
    column_int("learned_at", "when it last brought back a shard"),
    sa.PrimaryKeyConstraint("tree_id", "box_id"),
)

shard = sa.Table(
    "shard",
    metadata,
    column_id("number of the shard"),
    column_int("tree_id", "its tree", sa.ForeignKey("shared_tree.id")),
    column_int("version", "number of catalogs that were stored (S2); 0: none yet"),
    column_text("digest", "BLAKE3 of the stored catalog, which is also its file's name; null: none yet", null=True),
    column_text("former_digest", "of the catalog before; null: none", null=True),
    column_int("stored_by", "the worker that stored it; null: none yet", null=True),
    column_int("created_at", "when it was cut"),
    column_int("round_at", "when the present or last round of reading began; null: none yet", null=True),
    column_int("is_complete", "1: that round is over; 0: another visit continues it"),
    column_int("visited_at", "when a worker last stored its catalog; null: never", null=True),
    column_int("due_at", "when a worker should have it next"),
    column_int("file_count", "recorded files"),
    column_int("byte_count", "their sizes, added up"),
    column_int("oldest_at", "when the file was verified that waits longest; null: no file", null=True),
    column_int("apart_bytes", "bytes that can't be verified, as findings say"),
    column_int("read_bytes", "what the last visit read"),
    column_int("read_ms", "how long that took"),
    column_text("trouble", "why the last worker gave it back; null: it did not", null=True),
    column_int("worker_id", "the worker that holds it: it has the lease; null: none", null=True),
    column_int("wanted_until", "a command waits for it: until then no worker gets it", server_default="0"),
)
sa.Index("shard_tree", shard.c.tree_id, shard.c.due_at)
is_held = shard.c.worker_id.is_not(None)
sa.Index("shard_held", shard.c.worker_id, sqlite_where=is_held, postgresql_where=is_held)

shard_folder = sa.Table(
    "shard_folder",
    metadata,
    column_int("tree_id", "the tree", sa.ForeignKey("shared_tree.id")),
    column_blob("path", "a folder of the shard, relative to the tree; empty: the top"),
    column_int("shard_id", "the shard", sa.ForeignKey("shard.id")),
    column_int("above_id", "the shard that covers the folder above it; null: it is the top", null=True),
    sa.PrimaryKeyConstraint("tree_id", "path"),
)
sa.Index("shard_folder_shard", shard_folder.c.shard_id)
sa.Index("shard_folder_above", shard_folder.c.above_id)

shard_finding = sa.Table(
    "shard_finding",
    metadata,
    column_int("shard_id", "the shard", sa.ForeignKey("shard.id")),
    column_int("number", "number of the finding in its catalog"),
    column_blob("path", "relative to the tree; empty: about no file"),
    column_text("kind", "FindingKind, as text: a newer worker may know more"),
    column_int("opened_at", "by the clock of the worker"),
    column_text("body", "the object of `findings --json`, JSON"),
    sa.PrimaryKeyConstraint("shard_id", "number"),
)
sa.Index("shard_finding_path", shard_finding.c.path)

shard_worker = sa.Table(
    "shard_worker",
    metadata,
    column_id("number of the worker"),
    column_int("tree_id", "the tree that it reads", sa.ForeignKey("shared_tree.id")),
    column_int("box_id", "the box that it runs on", sa.ForeignKey("box.id")),
    column_int("began_at", "when it came"),
    column_int("seen_at", "its last call"),
    column_int("done_bytes", "what it read of its shard so far"),
)
sa.Index("shard_worker_tree", shard_worker.c.tree_id)
