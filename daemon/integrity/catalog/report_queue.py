"""
The queue of what is to be reported to a hub, and how much of it the hub has confirmed.

Triggers queue references to what changed: no code that writes rows needs to know about reports. Before they are sent
they become numbered messages, one batch at a time, so the queue stays small however long the hub is away.

I1  While ``report_state`` has a row, each change of a finding, each run that ends, and each action is in the queue from
    the transaction on that made it: one row for each finding and action, and 10,000 for runs.
I2  References leave the queue in the transaction that stores their messages. A stored message never changes: it is
    repeated with the same text until it is confirmed, so the chain of the stream holds.
I3  ``confirmed`` and ``chain`` change in the transaction that deletes the confirmed messages.
I4  A new stream repeats all unresolved findings, and the runs and actions that were never confirmed.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import NamedTuple

from integrity.catalog.db import Connection, numbers
from integrity.catalog.rows import FILE_JOIN, RECORD_COLUMNS, FileRecord
from integrity.model import FolderId, RootId

STATE = "state"
_NO_CHAIN = bytes(16)


class ReportState(NamedTuple):
    """How far a hub was told. The fields are the columns of ``report_state``."""

    url: str
    stream: bytes
    started_at: int
    confirmed: int
    chain: bytes
    complete_at: int | None
    failing_since: int | None
    last_error: str | None


class QueuedChange(NamedTuple):
    """A reference in the queue; ``id`` is its place."""

    id: int
    kind: str
    item_id: int


class QueuedMessage(NamedTuple):
    """A numbered message. ``body``: JSON, as it is sent."""

    number: int
    at: int
    kind: str
    item_id: int
    body: str


def load_state(c: Connection) -> ReportState | None:
    """Return how far the hub was told; None if the box reports to none."""
    query = "SELECT url, stream, started_at, confirmed, chain, complete_at, failing_since, last_error FROM report_state"
    return c.one(ReportState, query)


def start_stream(c: Connection, url: str, stream: bytes, now: int) -> None:
    """Begin a stream of messages (I4): ``state``, then all unresolved findings, then the rest."""
    query = """
        SELECT kind, item_id FROM report_message WHERE kind IN ('run', 'action')
        UNION SELECT kind, item_id FROM report_change WHERE kind IN ('run', 'action') ORDER BY kind, item_id"""
    rest = list(c.rows(query))
    c.run("DELETE FROM report_message")
    c.run("DELETE FROM report_change")
    c.run("INSERT INTO report_change (kind, item_id) VALUES (?, 0)", STATE)
    query = """
        INSERT INTO report_change (kind, item_id)
        SELECT 'finding', id FROM finding WHERE state != 'resolved' ORDER BY id"""
    c.run(query)
    c.run_many("INSERT INTO report_change (kind, item_id) VALUES (?, ?)", rest)
    query = """
        INSERT OR REPLACE INTO report_state (id, url, stream, started_at, confirmed, chain, complete_at)
        VALUES (1, ?1, ?2, ?3, 0, ?4, (SELECT complete_at FROM report_state WHERE url = ?1))"""
    c.run(query, url, stream, now, _NO_CHAIN)


def stop_reporting(c: Connection) -> None:
    """Remove all that belongs to reports: the box reports to no hub any more."""
    for table in ("report_change", "report_message", "report_folder", "report_state"):
        c.run(f"DELETE FROM {table}")
    c.run("DELETE FROM meta WHERE key > 'report/' AND key < 'report0'")


def find_changes(c: Connection, limit: int) -> list[QueuedChange]:
    """Return the references that wait longest."""
    return c.all(QueuedChange, "SELECT id, kind, item_id FROM report_change ORDER BY id LIMIT ?", limit)


def find_messages(c: Connection) -> list[QueuedMessage]:
    """Return the messages that are not confirmed, in the order of their numbers."""
    return c.all(QueuedMessage, "SELECT number, at, kind, item_id, body FROM report_message ORDER BY number")


def get_newest(c: Connection) -> int:
    """Return the highest number of a message, confirmed or not; 0: there was none."""
    return int(
        c.value("SELECT coalesce((SELECT max(number) FROM report_message), (SELECT confirmed FROM report_state), 0)")
    )


def count_queued(c: Connection, kind: str) -> int:
    """Count the references of a kind; each becomes a message, unless it is of a run or an action that is gone."""
    return c.value("SELECT count(*) FROM report_change WHERE kind = ?", kind)


def count_waiting(c: Connection) -> int:
    """Count the messages that are not confirmed, and the references that are to become messages."""
    return c.value("SELECT (SELECT count(*) FROM report_change) + (SELECT count(*) FROM report_message)")


def add_messages(c: Connection, messages: Sequence[QueuedMessage], changes: Iterable[QueuedChange]) -> None:
    """Store messages, and remove what they report from the queue (I2)."""
    c.run_many("INSERT INTO report_message (number, at, kind, item_id, body) VALUES (?, ?, ?, ?, ?)", messages)
    ids = numbers(change.id for change in changes)
    c.run("DELETE FROM report_change WHERE id IN (SELECT value FROM json_each(?))", ids)


def confirm(c: Connection, number: int, chain: bytes) -> None:
    """Record that the hub has all messages up to this number (I3). ``chain``: up to it."""
    c.run("DELETE FROM report_message WHERE number <= ?", number)
    c.run("UPDATE report_state SET confirmed = ?, chain = ?", number, chain)


def note_complete(c: Connection, now: int) -> None:
    """Record that the hub has everything."""
    c.run("UPDATE report_state SET complete_at = ?, failing_since = NULL, last_error = NULL", now)


def note_failure(c: Connection, error: str, now: int) -> None:
    """Record why a report failed."""
    c.run("UPDATE report_state SET failing_since = coalesce(failing_since, ?), last_error = ?", now, error)


_PAGE = 2000
_COLUMNS = "path, parent, own, content, subtree"
_SCHEMA = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -2048;
CREATE TABLE tree (
    path BLOB PRIMARY KEY, parent BLOB, own BLOB, content BLOB, subtree BLOB, mark INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID, STRICT;"""


class FolderDigestRow(NamedTuple):
    """A folder with recorded files, or that had some, and the digests of those."""

    id: FolderId
    path: bytes
    own: bytes
    content: bytes


class FolderKey(NamedTuple):
    """A folder with recorded files, or that had some."""

    id: FolderId
    path: bytes


def find_undigested(c: Connection, root_id: RootId, after: int, limit: int) -> list[FolderKey]:
    """Return folders of a root whose digests are not known, in the order of their numbers, behind a number."""
    query = """
        SELECT id, path FROM folder
        WHERE root_id = ? AND id > ?
            AND NOT EXISTS (SELECT 1 FROM report_folder WHERE folder_id = folder.id AND own IS NOT NULL)
        ORDER BY id LIMIT ?"""
    return c.all(FolderKey, query, root_id, after, limit)


def has_rules(c: Connection, root_id: RootId, rules: str) -> bool:
    """Return whether the digests of a root were made with these rules of what is left out."""
    return bool(c.value("SELECT value FROM meta WHERE key = ?", f"report/{root_id}") == rules)


def set_rules(c: Connection, root_id: RootId, rules: str) -> None:
    """Forget the digests of a root, because other rules say what is left out."""
    c.run("DELETE FROM report_folder WHERE folder_id IN (SELECT id FROM folder WHERE root_id = ?)", root_id)
    c.run("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", f"report/{root_id}", rules)


def begin_digests(c: Connection, ids: Sequence[FolderId]) -> None:
    """Make rows without digests."""
    c.run("INSERT OR REPLACE INTO report_folder (folder_id) SELECT value FROM json_each(?)", numbers(ids))


def save_digest(c: Connection, folder_id: FolderId, own: bytes, content: bytes) -> None:
    """Store the digests of a folder, unless one of its files changed since ``begin_digests``."""
    c.run("UPDATE report_folder SET own = ?, content = ? WHERE folder_id = ?", own, content, folder_id)


def drop_digests(c: Connection, ids: Sequence[FolderId]) -> None:
    """Forget the digests of folders, so that they are computed again."""
    c.run("DELETE FROM report_folder WHERE folder_id IN (SELECT value FROM json_each(?))", numbers(ids))


def find_digested(c: Connection, root_id: RootId) -> Iterator[FolderDigestRow]:
    """Yield the folders of a root whose digests are known, each before those in it, siblings in the order of names."""
    # Components are compared one by one: a folder comes before what lies in it, and that before "folder-b".
    query = """
        SELECT folder.id, folder.path, report_folder.own, report_folder.content
        FROM report_folder JOIN folder ON folder.id = report_folder.folder_id
        WHERE folder.root_id = ? AND report_folder.own IS NOT NULL
        ORDER BY replace(CAST(folder.path AS TEXT), '/', char(0))"""
    return map(FolderDigestRow._make, c.rows(query, root_id))


def find_files(c: Connection, folder_id: FolderId) -> Iterator[FileRecord]:
    """Yield the files that lie directly in a folder, in the order of their names, page by page."""
    query = f"""
        SELECT {RECORD_COLUMNS} FROM {FILE_JOIN}
        WHERE file.folder_id = ? AND file.name > ? ORDER BY file.name LIMIT ?"""
    after = b""
    while page := c.all(FileRecord.make, query, folder_id, after, _PAGE):
        yield from page
        after = page[-1].path.rpartition(b"/")[2]


class TreeFolder(NamedTuple):
    """A folder of a digest tree. ``parent``: path of the folder that it lies in; None: it is the root's own."""

    path: bytes
    parent: bytes | None
    own: bytes
    content: bytes
    subtree: bytes


class Mark(IntEnum):
    """What of a folder is to be sent."""

    NOTHING = 0
    DIGESTS = 1  # what lies below it changed
    FILES = 2


class StoredTree:
    """A digest tree in a temporary file, which is gone when the program ends."""

    def __init__(self) -> None:
        self._db = Connection(b"")
        self._db.driver.execute(_SCHEMA).fetchall()

    def close(self) -> None:
        """Give the temporary file back."""
        self._db.close()

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Add folders in the block; then they can be found by the folder that they lie in."""
        self._db.run("BEGIN")
        yield
        self._db.run("CREATE INDEX tree_parent ON tree (parent, path)")
        self._db.run("COMMIT")

    def add(self, one: TreeFolder) -> None:
        """Add a folder."""
        self._db.run("INSERT INTO tree (path, parent, own, content, subtree) VALUES (?, ?, ?, ?, ?)", *one)

    def get(self, path: bytes) -> TreeFolder:
        """Return a folder that is there."""
        return TreeFolder(*next(self._db.rows(f"SELECT {_COLUMNS} FROM tree WHERE path = ?", path)))

    def find_below(self, path: bytes) -> Iterator[TreeFolder]:
        """Yield the folders that lie directly in a folder, in the order of their names."""
        rows = self._db.rows(f"SELECT {_COLUMNS} FROM tree WHERE parent = ? ORDER BY path", path)
        return map(TreeFolder._make, rows)

    def mark(self, paths: Iterable[bytes], mark: Mark) -> None:
        """Mark folders."""
        self._db.run_many("UPDATE tree SET mark = ? WHERE path = ?", ((int(mark), path) for path in paths))

    def unmark(self) -> None:
        """Remove all marks."""
        self._db.run("UPDATE tree SET mark = 0 WHERE mark != 0")

    def find_marked(self) -> Iterator[tuple[TreeFolder, Mark]]:
        """Yield the marked folders, each after those in it."""
        # A path is longer than that of each folder above it.
        query = f"SELECT {_COLUMNS}, mark FROM tree WHERE mark != 0 ORDER BY length(path) DESC, path"
        for *columns, mark in self._db.rows(query):
            yield TreeFolder(*columns), Mark(mark)
