"""
The tables of the hub, with the meaning of each column: what boxes reported, and what the hub concluded from it.

They are the same in PostgreSQL and SQLite. The numbered migrations build the same schema; a test compares both.
Invariants:

H1  A box writes only rows of its own: each row that a box can cause has its ``box_id``, directly or by its member.
H2  ``box.last_number`` and ``box.last_chain`` change in the same transaction as the rows that their messages cause.
H3  The rows of ``file`` of a folder, and the digests in ``member_folder``, change in the same transaction.
H4  Two unresolved findings never have the same kind, set, tree, box and path.
H5  ``audit`` is only appended to.
H6  A box never changes what it once resolved (``box_finding``), what happened (``box_event``), or a former stream.

Of shared trees:

S1  Each folder of a tree is in at most one row of ``shard_folder``; a name belongs to the shard with the deepest folder
    above it. ``above_id`` follows from that: it is the shard that the folder would belong to without its row.
S2  ``shard.version`` counts the catalogs that were stored of a shard. It grows by one with each, in the transaction
    that names the catalog's file, and only for the worker that holds the shard.
S3  A tree has a shard from its beginning. Until the tree is surveyed, who holds that one does the survey.

Paths are BLOB (any bytes), relative to their root. JSON is text in ASCII, which may hold escaped surrogates. Times
``*_at`` are seconds UTC by the clock of the hub unless said otherwise.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

SCHEMA_REVISION = "0011"
"""The newest migration: the revision that this program reads and writes."""

metadata = sa.MetaData()

_INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def column_id(comment: str) -> sa.Column[Any]:
    return sa.Column("id", _INTEGER, sa.Identity(), primary_key=True, comment=comment)


def column_int(name: str, comment: str, *args: Any, null: bool = False, **options: Any) -> sa.Column[Any]:
    """Return a column of whole numbers of up to 64 bits."""
    return sa.Column(name, _INTEGER, *args, nullable=null, comment=comment, **options)


def column_flag(name: str, comment: str, **options: Any) -> sa.Column[Any]:
    """Return a column of small numbers, most of which are 0 or 1."""
    return sa.Column(name, sa.SmallInteger, nullable=False, comment=comment, **options)


def column_text(name: str, comment: str, *args: Any, null: bool = False) -> sa.Column[Any]:
    """Return a column of text without surrogates."""
    return sa.Column(name, sa.Text, *args, nullable=null, comment=comment)


def _only_where(condition: sa.ColumnElement[bool]) -> dict[str, Any]:
    return {"sqlite_where": condition, "postgresql_where": condition}


def column_blob(name: str, comment: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.LargeBinary, nullable=null, comment=comment)


box = sa.Table(
    "box",
    metadata,
    column_id("number of the box"),
    column_text("name", "chosen by the owner of the hub", sa.CheckConstraint("name <> ''"), null=False),
    column_blob("token_hash", "SHA-256 of its token, which is shown once and is random: 256 bits need no slow hash"),
    column_int("created_at", "when it was added"),
    column_int("revoked_at", "when its token was revoked; null: it may report", null=True),
    column_int("seen_at", "its last report; null: none yet", null=True),
    column_int("clock_ahead_s", "its clock minus the hub's at its last heartbeat; null: none yet", null=True),
    column_text("hostname", "as it reports", null=True),
    column_text("version", "of the program on it, as it reports", null=True),
    column_text("sentence", "the one sentence that its status begins with", null=True),
    column_text("state", "ok | problem | gap: how bad the sentence is", null=True),
    column_blob("stream", "its stream of messages (16 bytes); null: none yet", null=True),
    column_int("last_number", "number of its last stored message in the stream; 0: none"),
    column_blob("last_chain", "chain up to that message (16 bytes)"),
    column_int(
        "repeats_until",
        "number of the message up to which a new stream repeats findings; then those of older streams end; null: done",
        null=True,
    ),
    column_int("worked_at", "the last call of a worker of a shared tree on it; null: none yet", null=True),
    column_text("shared_by", "the two machines that use its token, for people; null: one does", null=True),
    sa.UniqueConstraint("name"),
    sa.UniqueConstraint("token_hash"),
)

box_stream = sa.Table(
    "box_stream",
    metadata,
    column_int("box_id", "the box", sa.ForeignKey("box.id")),
    column_blob("stream", "a stream that it began (16 bytes); one that was replaced is never continued"),
    column_int("began_at", "when its first message came"),
    sa.PrimaryKeyConstraint("box_id", "stream"),
)

box_run = sa.Table(
    "box_run",
    metadata,
    column_int("box_id", "the box", sa.ForeignKey("box.id")),
    column_blob("run", "random number of a process that reports with the token of the box (16 bytes)"),
    column_blob("machine", "which machine it runs on (16 bytes); null: it does not say", null=True),
    column_text("hostname", "of that machine, as it reports"),
    column_text("address", "where its last heartbeat came from"),
    column_int("first_at", "its first heartbeat; since then it was never silent for long, see token_use.py"),
    column_int("seen_at", "its last heartbeat"),
    column_flag("is_accepted", "1: its heartbeats were stored"),
    sa.PrimaryKeyConstraint("box_id", "run"),
)

box_grant = sa.Table(
    "box_grant",
    metadata,
    column_int("box_id", "the box", sa.ForeignKey("box.id")),
    column_text("kind", "set | tree: GrantKind"),
    column_text("name", "of the replica set, or shared tree, that it may be in; *: any"),
    sa.PrimaryKeyConstraint("box_id", "kind", "name"),
)

box_usage = sa.Table(
    "box_usage",
    metadata,
    column_int("box_id", "the box; one without a row was not counted yet", sa.ForeignKey("box.id")),
    column_int("stored_bytes", "what its rows take, at most; see quota.py"),
    column_int("counted_at", "when they were counted last; null: never", null=True),
    column_int("full_since", "when they were found to be as many as they may be; null: they are fewer", null=True),
    sa.PrimaryKeyConstraint("box_id"),
)

replica_set = sa.Table(
    "replica_set",
    metadata,
    column_id("number of the set"),
    column_text("name", "[[root]] replica_set of its members"),
    column_int("created_at", "when a box first reported it"),
    column_int("changed_at", "when what a vote depends on changed last; null: never", null=True),
    column_int("voted_at", "when its last completed vote began; null: none yet", null=True),
    column_int("vote_ms", "how long that took", null=True),
    column_flag("is_waiting", "1: vote again, files were left open until a box reports again", server_default="0"),
    column_int("changes", "how often what a vote depends on changed; see due_votes.py", server_default="0"),
    column_int("voted_changes", "how many of these its last completed vote saw", server_default="0"),
    sa.UniqueConstraint("name"),
)

member = sa.Table(
    "member",
    metadata,
    column_id("number of the member: one root of a box, in a set or for itself"),
    column_int("box_id", "its box", sa.ForeignKey("box.id")),
    column_int("root_id", "number of the root in the catalog of the box"),
    column_int(
        "set_id",
        "its set; null: a root without one, of which no files are reported",
        sa.ForeignKey("replica_set.id"),
        null=True,
    ),
    column_blob("path", "absolute path of the root on the box"),
    column_text("url", "where other boxes can read it: a copy URL as of [[copy]]; empty: not said"),
    column_text("excludes", "patterns that leave files out on this box, JSON list"),
    column_text("policy", "Policy of the root"),
    column_int("verify_every_s", "the root's promise"),
    column_int("file_count", "files, as the box reports"),
    column_int("byte_count", "their sizes, added up, as the box reports"),
    column_int(
        "oldest_verified_at", "when the file was verified that waits longest, by its clock; null: no file", null=True
    ),
    column_blob("announced_tree", "subtree digest of its top, as last announced; null: none", null=True),
    column_blob("settled_tree", "subtree digest of its top that the stored rows have; null: none complete", null=True),
    column_int("settled_at", "when the stored rows were complete last", null=True),
    column_int("removed_at", "when the box stopped reporting this root; null: it reports it", null=True),
    column_text("refused_set", "the set that its box names for it and may not be in; null: none", null=True),
    sa.UniqueConstraint("box_id", "root_id"),
)
sa.Index("member_set", member.c.set_id)

folder = sa.Table(
    "folder",
    metadata,
    column_id("number of the folder, shared by all members of a set"),
    column_int("set_id", "its set", sa.ForeignKey("replica_set.id")),
    column_blob("path", "relative to the root; empty for the root's own"),
    sa.UniqueConstraint("set_id", "path"),
)

member_folder = sa.Table(
    "member_folder",
    metadata,
    column_int("member_id", "the member that has the folder", sa.ForeignKey("member.id")),
    column_int("folder_id", "the folder", sa.ForeignKey("folder.id")),
    column_int("parent_id", "the folder that it lies in; null: the top", null=True),
    column_blob("own", "see reporting/digest_tree.py (16 bytes)"),
    column_blob("content", "the same (16 bytes): equal on two members if the files are"),
    column_blob("subtree", "the same (16 bytes)"),
    column_flag(
        "is_checked",
        "1: the hub computed subtree and subtree_content, and nothing below has changed since",
        server_default="1",
    ),
    column_blob(
        "subtree_content",
        "of content and the subtree_content of the folders in it, as subtree (16 bytes); null: not computed yet",
        null=True,
    ),
    sa.PrimaryKeyConstraint("member_id", "folder_id"),
    sqlite_with_rowid=False,
)
sa.Index("member_folder_parent", member_folder.c.member_id, member_folder.c.parent_id)
sa.Index("member_folder_folder", member_folder.c.folder_id)
sa.Index("member_folder_unchecked", member_folder.c.member_id, **_only_where(member_folder.c.is_checked == 0))


def _make_file_table(name: str) -> sa.Table:
    """Return a table of files. No foreign keys: a million rows are loaded at once, and removed with their member."""
    return sa.Table(
        name,
        metadata,
        column_int("member_id", "the member that has the file"),
        column_int("folder_id", "the folder that it lies in"),
        column_blob("name", "its name in the folder"),
        column_int("size_bytes", "as recorded on the box, like all that follows"),
        column_int("mtime_ns", "mtime"),
        column_blob("md5", "MD5 of the content; null: none", null=True),
        column_blob("xxh3_128", "XXH3-128 of the content; null: none", null=True),
        column_int("recorded_at", "when this content was recorded, by the clock of the box"),
        column_int(
            "verified_at", "when it was last found equal to the record, by the clock of the box; null: never", null=True
        ),
        column_flag("read_how", "index in digest_tree.READ_HOWS"),
        column_flag("flags", "digest_tree.FROZEN and SUSPECT"),
        sa.PrimaryKeyConstraint("member_id", "folder_id", "name"),
        sqlite_with_rowid=False,  # half the size, and rows lie in the order in which votes read them
    )


file = _make_file_table("file")

file_part = _make_file_table("file_part")
"""Files of folders whose last part has not come yet; what is never completed is dropped."""

box_finding = sa.Table(
    "box_finding",
    metadata,
    column_int("box_id", "the box that found it", sa.ForeignKey("box.id")),
    column_blob("stream", "the stream that reported it last: a state message ends those of older streams"),
    column_int("number", "number of the finding on the box"),
    column_int("root_id", "number of the root on the box; null: of no root", null=True),
    column_blob("path", "relative to the root", null=True),
    column_text("kind", "FindingKind, as text: a newer box may know more"),
    column_text("state", "FindingState; not_reported: it was unresolved, and the box began a new stream without it"),
    column_text("certainty", "Certainty; null: none", null=True),
    column_int("opened_at", "by the clock of the box"),
    column_int("resolved_at", "when the hub learned that it was resolved; null: unresolved", null=True),
    column_text("body", "the object of `findings --json`, JSON"),
    # A box that was restored from an old image gives numbers a second time.
    sa.PrimaryKeyConstraint("box_id", "number", "opened_at"),
)
sa.Index("box_finding_path", box_finding.c.box_id, box_finding.c.root_id, box_finding.c.path)
sa.Index(
    "box_finding_unresolved",
    box_finding.c.box_id,
    box_finding.c.number,
    **_only_where(box_finding.c.resolved_at.is_(None)),
)

box_event = sa.Table(
    "box_event",
    metadata,
    column_id("number of the event"),
    column_int("box_id", "the box", sa.ForeignKey("box.id")),
    column_int("at", "when it happened, by the clock of the box"),
    column_text("kind", "run | action: MessageKind"),
    column_int("root_id", "number of the root on the box; null: of no root", null=True),
    column_text("body", "the object of --json, JSON"),
)
sa.Index("box_event_at", box_event.c.box_id, box_event.c.at)

event_mark = sa.Table(
    "event_mark",
    metadata,
    column_int("at", "a time"),
    column_int("event_id", "number of the last event that the hub had then"),
    sa.PrimaryKeyConstraint("at"),
)
"""How old events are by the clock of the hub: ``box_event.at`` is what a box says."""

finding = sa.Table(
    "finding",
    metadata,
    column_id("number of the finding of the hub"),
    column_text("kind", "HubFindingKind"),
    column_text("certainty", "how sure it is: proven | likely | undecided"),
    column_int("set_id", "the replica set; null: not about one", sa.ForeignKey("replica_set.id"), null=True),
    column_int("tree_id", "the shared tree; null: not about one", null=True),
    column_int(
        "box_id", "the box whose side is wrong, or that is silent; null: undecided", sa.ForeignKey("box.id"), null=True
    ),
    column_blob("path", "file or folder, relative to the root; empty: no file"),
    column_text("state", "FindingState"),
    column_int("opened_at", "when it was opened"),
    column_int("updated_at", "when its evidence changed last"),
    column_int("resolved_at", "when it ended; null: unresolved", null=True),
    column_text("resolution", "why it ended, for people", null=True),
    column_int("muted_until", "no reminders before; null: not muted", null=True),
    column_text("headline", "what happened, for people"),
    column_text("explanation", "one sentence that says why the hub thinks so"),
    column_text("command", "the command that mends it; null: none is known", null=True),
    column_int("command_box_id", "the box to run it on; null: no command", sa.ForeignKey("box.id"), null=True),
    column_text("evidence", "what each member has: JSON list of objects"),
    column_text("alerted", "what each channel was last sent about it, see alerts.py, JSON; null: nothing", null=True),
    column_int("subjects", "how many files, boxes or trees it stands for", server_default="1"),
    column_flag("is_news", "1: some channel may have to be sent something about it", server_default="1"),
)
sa.Index(
    "finding_unresolved",
    finding.c.kind,
    sa.func.coalesce(finding.c.set_id, 0),
    sa.func.coalesce(finding.c.tree_id, 0),
    sa.func.coalesce(finding.c.box_id, 0),
    finding.c.path,
    unique=True,
    **_only_where(finding.c.resolved_at.is_(None)),
)

sa.Index("finding_news", finding.c.id, **_only_where(finding.c.is_news == 1))
sa.Index("finding_set", finding.c.set_id)
sa.Index("finding_tree", finding.c.tree_id)

audit = sa.Table(
    "audit",
    metadata,
    column_id("number of the entry"),
    column_int("at", "when it was done"),
    column_text("who", "user of the page, user of the command, or box:NAME"),
    column_text("address", 'where the request came from: an IP address, or "command line"'),
    column_text("verb", "what was done: add_box, revoke_box, join, new_stream, refused, acknowledge, ..."),
    column_text("subject", "what it was done to"),
    column_text("outcome", "how it ended, for people"),
)

former_file = sa.Table(
    "former_file",
    metadata,
    column_id("number of the row"),
    column_int("member_id", "the member that had this content, see former.py"),
    column_int("folder_id", "the folder that the file lies in"),
    column_blob("name", "its name in the folder"),
    column_int("size_bytes", "of the content"),
    column_blob("md5", "of the content", null=True),
    column_blob("xxh3_128", "of the content", null=True),
    column_int("replaced_at", "when the hub learned of other content"),
)
sa.Index("former_file_name", former_file.c.member_id, former_file.c.folder_id, former_file.c.name)
sa.Index("former_file_replaced_at", former_file.c.replaced_at)

alert_channel = sa.Table(
    "alert_channel",
    metadata,
    column_text("name", "of the channel, without secrets", sa.CheckConstraint("name <> ''")),
    column_int("good_at", "when it last accepted a message; null: never", null=True),
    column_int("failing_since", "when it began to fail; null: it does not", null=True),
    column_int("attempts", "failures since then"),
    column_int("next_try_at", "no attempt before; null: at once", null=True),
    column_text("last_error", "of the last failure", null=True),
    column_int(
        "digest_at",
        "when it last took a message that listed all open findings, or was the first about any; null: never",
        null=True,
    ),
    column_text("incident_times", "when it took the last messages about new findings, JSON list"),
    sa.PrimaryKeyConstraint("name"),
)

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
sa.Index("shard_held", shard.c.worker_id, **_only_where(shard.c.worker_id.is_not(None)))

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
