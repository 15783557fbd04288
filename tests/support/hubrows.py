"""Put boxes, members and files into the database of a hub as its API would, and ask what a vote finds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa
import xxhash

from integrity.hub import schema
from integrity.hub.boxes import add_box
from integrity.hub.findings import HubFinding, find_findings
from integrity.hub.votes import record_vote, vote
from integrity.reporting.digest_tree import ReportedFile, digest_files

NOW = 1_800_000_000
DAY_S = 86400
EMPTY_STREAM = bytes(16)


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


@dataclass
class HubRows:
    """
    The rows of one replica set.

    Args:
        c: in a transaction.
    """

    c: sa.Connection
    set_name: str = "photos"
    boxes: dict[str, int] = field(default_factory=dict)
    members: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values = {"name": self.set_name, "created_at": NOW}
        self.set_id = _insert(self.c, schema.replica_set, **values)

    def add_box(self, name: str, *, seen_at: int | None = NOW, clock_ahead_s: int = 0) -> int:
        """Add a box that reported."""
        add_box(self.c, name, NOW - 100 * DAY_S)
        is_it = schema.box.c.name == name
        values = {"seen_at": seen_at, "clock_ahead_s": clock_ahead_s, "hostname": f"{name}.lan"}
        self.c.execute(sa.update(schema.box).where(is_it).values(**values))
        self.boxes[name] = self.c.execute(sa.select(schema.box.c.id).where(is_it)).scalar_one()
        return self.boxes[name]

    def add_member(
        self,
        name: str,
        files: Mapping[bytes, Iterable[ReportedFile]],
        *,
        seen_at: int = NOW,
        clock_ahead_s: int = 0,
        url: str = "",
        excludes: Iterable[str] = (),
        path: bytes | None = None,
    ) -> int:
        """Add a box with one member of the set, and its files by folder."""
        box_id = self.add_box(name, seen_at=seen_at, clock_ahead_s=clock_ahead_s)
        self.members[name] = _insert(
            self.c,
            schema.member,
            box_id=box_id,
            root_id=1,
            set_id=self.set_id,
            path=b"/srv/" + name.encode() if path is None else path,
            url=url,
            excludes=json.dumps(list(excludes)),
            policy="mutable",
            verify_every_s=30 * DAY_S,
            file_count=0,
            byte_count=0,
            announced_tree=bytes(16),
            settled_tree=bytes(16),
            settled_at=seen_at,
        )
        for folder, of_folder in files.items():
            self.store_folder(name, folder, of_folder)
        return self.members[name]

    def store_folder(self, name: str, folder: bytes, files: Iterable[ReportedFile]) -> None:
        """Replace the files of a folder."""
        member_id, folder_id = self.members[name], self.folder_id(folder)
        ordered = sorted(files)
        for table in (schema.file, schema.member_folder):
            self.c.execute(sa.delete(table).where(table.c.member_id == member_id, table.c.folder_id == folder_id))
        digests = digest_files(ordered)._asdict()
        keys = {"member_id": member_id, "folder_id": folder_id}
        self.c.execute(sa.insert(schema.member_folder).values(**keys, **digests, subtree=bytes(16)))
        if ordered:
            self.c.execute(sa.insert(schema.file), [keys | one._asdict() for one in ordered])

    def folder_id(self, path: bytes) -> int:
        """Return the number of a folder, which is made if it is new."""
        is_it = schema.folder.c.set_id == self.set_id, schema.folder.c.path == path
        found = self.c.execute(sa.select(schema.folder.c.id).where(*is_it)).scalar()
        return _insert(self.c, schema.folder, set_id=self.set_id, path=path) if found is None else found

    def report_finding(self, name: str, number: int, kind: str, path: bytes, **body: object) -> None:
        """Store a finding of a box."""
        values = {"stream": EMPTY_STREAM, "state": "open", "opened_at": NOW - 60, "certainty": body.get("certainty")}
        text = json.dumps({"id": number, "kind": kind, **body})
        keys = {"box_id": self.boxes[name], "number": number, "root_id": 1, "path": path, "kind": kind}
        self.c.execute(sa.insert(schema.box_finding).values(**keys, **values, body=text))

    def resolve_finding(self, name: str, number: int) -> None:
        """Resolve a finding of a box."""
        is_it = schema.box_finding.c.box_id == self.boxes[name], schema.box_finding.c.number == number
        self.c.execute(sa.update(schema.box_finding).where(*is_it).values(resolved_at=NOW, state="resolved"))

    def vote(self, now: int = NOW) -> list[HubFinding]:
        """Vote, and return the unresolved findings in the order of their texts."""
        record_vote(self.c, self.set_id, vote(self.c, self.set_id), now, 0.0)
        unresolved = schema.finding.c.resolved_at.is_(None)
        return sorted(find_findings(self.c, unresolved), key=lambda one: (one.kind, one.box_name or "", one.path))


def _insert(c: sa.Connection, table: sa.Table, **values: object) -> int:
    key = c.execute(sa.insert(table).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0])
