"""Rows of a hub's database as boxes and votes leave them, without the boxes, and what a vote on them finds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import sqlalchemy as sa
import xxhash

from integrity.hub import schema
from integrity.hub.boxes import add_box
from integrity.hub.database import replace_rows
from integrity.hub.findings import HubFinding, find_findings
from integrity.hub.kinds import HubCertainty, HubFindingKind
from integrity.hub.schema import shard, shard_folder, shard_worker, shared_tree
from integrity.hub.stored_files import TreeMember, replace_folders
from integrity.hub.trees import digest_subtrees
from integrity.hub.votes import record_vote, vote
from integrity.reporting.digest_tree import ReportedFile, digest_files
from support.hubserver import ANYWHERE

NOW = 1_800_000_000
DAY_S = 86400
PROMISE_S = 30 * DAY_S
DIGEST = bytes(range(16))
OTHER_DIGEST = bytes(range(16, 32))


def reported(
    name: bytes,
    content: bytes = b"content",
    *,
    mtime: int = NOW - 30 * DAY_S,
    recorded_at: int = NOW - 20 * DAY_S,
    verified_at: int | None = NOW - DAY_S,
    read_how: int = 1,
    flags: int = 0,
) -> ReportedFile:
    """Return what a box reports of a file; ``mtime`` in seconds."""
    md5, xxh3 = hashlib.md5(content).digest(), xxhash.xxh3_128_digest(content)
    times = recorded_at, verified_at
    return ReportedFile(name, len(content), mtime * 10**9, md5, xxh3, *times, read_how, flags)


class HubRows:
    """
    Write rows.

    Args:
        c: in a transaction.
        now: seconds UTC.

    Attributes:
        boxes: their numbers by name.
        members: numbers of those of the set photos, by the names of their boxes.
    """

    def __init__(self, c: sa.Connection, now: int = NOW) -> None:
        self.c = c
        self.now = now
        self.boxes: dict[str, int] = {}
        self.members: dict[str, int] = {}

    @cached_property
    def set_id(self) -> int:
        """Number of the set photos, which was not compared yet."""
        return self.add_set("photos", voted_ago_s=None)

    def add_box(self, name: str, *, seen_ago_s: int | None = 0, **columns: Any) -> int:
        """Add a box that reported so long ago, and return its number; None: it never did."""
        add_box(self.c, name, self.now - 100 * DAY_S, ANYWHERE)
        is_it = schema.box.c.name == name
        values: dict[str, Any] = {
            "clock_ahead_s": 0,
            "state": "ok",
            "sentence": "All 12,345 files (5.4 GiB) were verified within 30 days.",
            "hostname": f"{name}.lan",
            "version": "1.0",
            "seen_at": self.now - (seen_ago_s or 0),
        }
        if seen_ago_s is not None:
            self.c.execute(sa.update(schema.box).where(is_it).values(**{**values, **columns}))
        self.boxes[name] = self.c.execute(sa.select(schema.box.c.id).where(is_it)).scalar_one()
        return self.boxes[name]

    def add_member(
        self,
        name: str,
        files: Mapping[bytes, Iterable[ReportedFile]],
        *,
        seen_at: int | None = None,
        clock_ahead_s: int = 0,
        url: str = "",
        excludes: Iterable[str] = (),
        path: bytes | None = None,
    ) -> int:
        """Add a box with one member of the set, and its files by folder."""
        seen_at = self.now if seen_at is None else seen_at
        box_id = self.add_box(name, seen_at=seen_at, clock_ahead_s=clock_ahead_s)
        self.members[name] = self.add_root(
            box_id,
            b"/srv/" + name.encode() if path is None else path,
            set_id=self.set_id,
            url=url,
            excludes=json.dumps(list(excludes)),
            settled_at=seen_at,
        )
        for folder, of_folder in files.items():
            self.store_folder(name, folder, of_folder)
        return self.members[name]

    def store_folder(
        self, name: str, folder: bytes, files: Iterable[ReportedFile], *, has_former: bool = False
    ) -> None:
        """Replace the files of a folder; without ``has_former`` as if they had always been like this."""
        keys = {"member_id": self.members[name], "folder_id": self.folder_id(folder)}
        ordered = sorted(files)
        digests = digest_files(ordered)._asdict()
        self._place(keys["member_id"], folder, digests)
        tree = TreeMember(self.members[name], self.set_id)
        replace_folders(self.c, tree, {keys["folder_id"]: ordered}, self.now)
        if not has_former:
            self.c.execute(sa.delete(schema.former_file).filter_by(**keys))

    def _place(self, member_id: int, path: bytes, digests: dict[str, bytes]) -> None:
        """Store the digests of a folder, and the folders above it: their subtrees are to be digested again."""
        above = None if not path else path.rpartition(b"/")[0]
        parent_id = None if above is None else self.folder_id(above)
        keys = {"member_id": member_id, "folder_id": self.folder_id(path)}
        values = {**keys, "parent_id": parent_id, **digests, "subtree": bytes(16), "is_checked": 0}
        replace_rows(self.c, schema.member_folder, [values])
        if above is not None:
            is_it = schema.member_folder.c.member_id == member_id, schema.member_folder.c.folder_id == parent_id
            row = self.c.execute(sa.select(schema.member_folder.c.own, schema.member_folder.c.content).where(*is_it))
            self._place(member_id, above, next((one._asdict() for one in row), digest_files(())._asdict()))

    def folder_id(self, path: bytes) -> int:
        """Return the number of a folder, which is made if it is new."""
        is_it = schema.folder.c.set_id == self.set_id, schema.folder.c.path == path
        found = self.c.execute(sa.select(schema.folder.c.id).where(*is_it)).scalar()
        return self._insert(schema.folder, set_id=self.set_id, path=path) if found is None else found

    def report_finding(self, name: str, number: int, kind: str, path: bytes, **body: object) -> None:
        """Store a finding of a box."""
        text = json.dumps({"id": number, "kind": kind, **body})
        self.add_box_finding(self.boxes[name], number, path, kind, body=text, certainty=body.get("certainty"))

    def resolve_finding(self, name: str, number: int) -> None:
        """Resolve a finding of a box."""
        is_it = schema.box_finding.c.box_id == self.boxes[name], schema.box_finding.c.number == number
        self.c.execute(sa.update(schema.box_finding).where(*is_it).values(resolved_at=self.now, state="resolved"))

    def vote(self, now: int | None = None) -> list[HubFinding]:
        """Vote, and return the unresolved findings in the order of their texts."""
        for member_id in self.members.values():
            assert not digest_subtrees(self.c, TreeMember(member_id, self.set_id))
        record_vote(self.c, self.set_id, vote(self.c, self.set_id), self.now if now is None else now, 0.0)
        unresolved = schema.finding.c.resolved_at.is_(None)
        return sorted(find_findings(self.c, unresolved), key=lambda one: (one.kind, one.box_name or "", one.path))

    def add_set(self, name: str, *, voted_ago_s: int | None = 300) -> int:
        """Add a replica set that was compared so long ago, and return its number; None: never."""
        voted = None if voted_ago_s is None else self.now - voted_ago_s
        return self._insert(
            schema.replica_set,
            name=name,
            created_at=self.now - 60 * DAY_S,
            voted_at=voted,
            vote_ms=None if voted is None else 1250,
        )

    def add_root(
        self,
        box_id: int,
        path: bytes,
        *,
        set_id: int | None = None,
        files: int = 12_345,
        size: int = 5_798_205_850,
        oldest_ago_s: int | None = 12 * DAY_S,
        settled_ago_s: int = 600,
        root_id: int = 1,
        **columns: Any,
    ) -> int:
        """Add a root that a box reports, and return its number."""
        values: dict[str, Any] = {
            "box_id": box_id,
            "root_id": root_id,
            "set_id": set_id,
            "path": path,
            "url": "",
            "excludes": "[]",
            "policy": "archive",
            "verify_every_s": PROMISE_S,
            "file_count": files,
            "byte_count": size,
            "oldest_verified_at": None if oldest_ago_s is None else self.now - oldest_ago_s,
            "announced_tree": DIGEST if set_id else None,
            "settled_tree": DIGEST if set_id else None,
            "settled_at": self.now - settled_ago_s if set_id else None,
        }
        return self._insert(schema.member, **{**values, **columns})

    def add_box_finding(
        self, box_id: int, number: int, path: bytes, kind: str, *, body: str = "{}", **columns: Any
    ) -> None:
        """Add a finding that a box reported."""
        values: dict[str, Any] = {
            "box_id": box_id,
            "stream": DIGEST,
            "number": number,
            "root_id": 1,
            "path": path,
            "kind": kind,
            "state": "open",
            "certainty": None,
            "opened_at": self.now - 2 * DAY_S,
            "resolved_at": None,
            "body": body,
        }
        self.c.execute(sa.insert(schema.box_finding).values({**values, **columns}))

    def add_event(self, box_id: int, kind: str, body: Mapping[str, object] | str) -> None:
        """Add an event of a box; ``body``: an object, or the text to be stored in its place."""
        text = body if isinstance(body, str) else json.dumps(body)
        self._insert(schema.box_event, box_id=box_id, at=self.now - 3600, kind=kind, root_id=1, body=text)

    def add_finding(
        self,
        kind: HubFindingKind,
        path: bytes,
        *,
        headline: str,
        evidence: Sequence[Mapping[str, object]] = (),
        **columns: Any,
    ) -> int:
        """Add a finding of the hub, and return its number."""
        values: dict[str, Any] = {
            "kind": kind.value,
            "certainty": HubCertainty.PROVEN.value,
            "set_id": None,
            "tree_id": None,
            "box_id": None,
            "path": path,
            "state": "open",
            "opened_at": self.now - 7200,
            "updated_at": self.now - 3600,
            "headline": headline,
            "explanation": "This is why the hub thinks so.",
            "evidence": json.dumps(list(evidence)),
        }
        return self._insert(schema.finding, **{**values, **columns})

    def add_tree(self, name: str, *, surveyed_ago_s: int | None = DAY_S) -> int:
        """Add a shared tree that was cut so long ago, and return its number; None: it was not yet."""
        surveyed = None if surveyed_ago_s is None else self.now - surveyed_ago_s
        values = {"name": name, "inode": 2, "settings": "{}", "verify_every_s": PROMISE_S, "surveyed_at": surveyed}
        return self._insert(shared_tree, created_at=self.now - 2 * DAY_S, **values)

    def add_shard(
        self, tree_id: int, paths: Sequence[bytes], *, oldest_ago_s: int | None = 3 * DAY_S, **columns: Any
    ) -> int:
        """Add a shard whose oldest verification is so long ago, and return its number; None: it was never read."""
        is_read = oldest_ago_s is not None
        values: dict[str, Any] = {
            "tree_id": tree_id,
            "version": int(is_read),
            "digest": "0" * 64 if is_read else None,
            "created_at": self.now - DAY_S,
            "is_complete": 1,
            "visited_at": self.now - 3600 if is_read else None,
            "due_at": self.now + 3600,
            "file_count": 100_000 if is_read else 0,
            "byte_count": 400 << 30 if is_read else 0,
            "oldest_at": None if oldest_ago_s is None else self.now - oldest_ago_s,
            "apart_bytes": 0,
            "read_bytes": 40 << 30 if is_read else 0,
            "read_ms": 400_000 if is_read else 0,
        }
        number = self._insert(shard, **{**values, **columns})
        rows = [{"tree_id": tree_id, "path": path, "shard_id": number} for path in paths]
        self.c.execute(sa.insert(shard_folder), rows)
        return number

    def add_worker(self, number: int, tree_id: int, box_id: int, shard_id: int | None, *, seen_ago_s: int = 20) -> None:
        """Add a worker of a tree that called so long ago."""
        values = {"id": number, "tree_id": tree_id, "box_id": box_id, "done_bytes": 7 << 30}
        times = {"began_at": self.now - DAY_S, "seen_at": self.now - seen_ago_s}
        self.c.execute(sa.insert(shard_worker).values(**values, **times))
        self.c.execute(sa.update(shard).where(shard.c.id == shard_id).values(worker_id=number))

    def _insert(self, table: sa.Table, **values: Any) -> int:
        key = self.c.execute(sa.insert(table).values(**values)).inserted_primary_key
        assert key is not None
        return int(key[0])
