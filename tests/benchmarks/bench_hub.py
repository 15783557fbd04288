"""
What a hub costs: rows stored a second, votes on a large set, and the memory of the process that does both.

    python tests/benchmarks/bench_hub.py [--boxes 200] [--rows 20000000] [--files 1000000] [--sqlite PATH]

On a PostgreSQL of its own that survives power cuts, with Debian's settings. Boxes report in sets of three through the
functions that the API calls, from the text of their requests; HTTP and zstd are not in it. 20 million rows take about
ten minutes and 8 GB.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import measure  # noqa: F401 - makes tests/support importable
import sqlalchemy as sa

from integrity.hub import schema
from integrity.hub.boxes import add_box
from integrity.hub.database import HubDatabase
from integrity.hub.migrate import migrate
from integrity.hub.reported import read_folders
from integrity.hub.stored_files import TreeMember
from integrity.hub.trees import digest_subtrees, settle, store_folders
from integrity.hub.votes import run_vote
from integrity.reporting.digest_tree import ReportedFile, digest_files, digest_subtree, file_values
from integrity.reporting.protocol import decode_lines, encode_lines
from support.hubserver import ANYWHERE
from support.postgres import PostgresServer

IN_FOLDER = 100
BODY_FOLDERS = 90  # of 100 files each: a call has at most 10,000 lines, and 8 MiB
NOW = 1_800_000_000
MEMBERS = 3


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=int, default=200)
    parser.add_argument("--rows", type=int, default=20_000_000, help="of all boxes together")
    parser.add_argument("--files", type=int, default=1_000_000, help="of each member of the large set")
    parser.add_argument("--sqlite", help="measure SQLite in this file, which must not exist, instead of PostgreSQL")
    options = parser.parse_args()
    if options.sqlite:
        bench(options.sqlite, options)
        return
    with PostgresServer(is_durable=True) as server:
        bench(server.create_database(), options)


def bench(url: str, options: argparse.Namespace) -> None:
    """Fill a database, and vote."""
    database = HubDatabase.open(url, any_revision=True)
    migrate(database)
    bench_vote(database, options.files)
    sets, each = options.boxes // MEMBERS - 1, options.rows // options.boxes
    rows = 0
    with timed("stored: small sets") as line:
        for number in range(sets):
            rows += fill_set(database, f"set{number}", each)
        line.rows = rows
    database.close()


class Line:
    """What was measured; ``rows``: of files, if any were stored."""

    rows = 0


@contextmanager
def timed(what: str) -> Iterator[Line]:
    """Print how long it took, how much of that this process computed, and its peak of memory."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # proc(5): reset the peak
    line, began, cpu = Line(), time.monotonic(), time.process_time()
    yield line
    took, computed = time.monotonic() - began, time.process_time() - cpu
    rate = f"  {line.rows / took:10,.0f} rows/s" if line.rows else ""
    print(f"{what:50} {took:8.2f} s, {computed:8.2f} s of it here, peak {peak_mib():5,.0f} MiB{rate}", flush=True)


def peak_mib() -> float:
    """Return the peak of the resident memory of this process."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def bench_vote(database: HubDatabase, files: int) -> None:
    """Vote on one large set: all equal, few that differ, all different on one member, one member emptied."""
    with timed(f"stored: 3 x {files:,} files") as line:
        line.rows = fill_set(database, "large", files)
    with database.transaction() as c:
        analyze(c)
        set_id = c.execute(sa.select(schema.replica_set.c.id).where(schema.replica_set.c.name == "large")).scalar_one()
        third = c.execute(sa.select(sa.func.max(schema.member.c.id))).scalar_one()
    vote(database, set_id, "vote: all equal")
    some = list(range(0, files // IN_FOLDER, max(1, files // IN_FOLDER // 50)))
    with database.transaction() as c:
        change_folders(c, third, some)
    vote(database, set_id, f"vote: {len(some)} files in {len(some)} folders differ")
    with database.transaction() as c:
        is_it = schema.member_folder.c.member_id == third
        c.execute(sa.update(schema.member_folder).where(is_it).values(content=bytes(16), is_checked=0))
        edited = {"md5": bytes(16), "xxh3_128": bytes(16), "mtime_ns": (NOW - 50) * 10**9}
        c.execute(sa.update(schema.file).where(schema.file.c.member_id == third).values(**edited))
    vote(database, set_id, "vote: all files of one member differ")
    with database.transaction() as c:
        for table in (schema.file, schema.member_folder):
            c.execute(sa.delete(table).where(table.c.member_id == third))
    vote(database, set_id, "vote: one member was emptied")


def analyze(c: sa.Connection) -> None:
    """Bring the statistics up to date, as autovacuum does within a minute."""
    c.exec_driver_sql("ANALYZE")


def change_folders(c: sa.Connection, member_id: int, numbers: list[int]) -> None:
    """Give the first file of some folders other content."""
    paths = [folder_path(number) for number in numbers]
    ids = sa.select(schema.folder.c.id).where(schema.folder.c.path.in_(paths))
    where = schema.member_folder.c.member_id == member_id, schema.member_folder.c.folder_id.in_(ids)
    c.execute(sa.update(schema.member_folder).where(*where).values(content=bytes(16), is_checked=0))
    above = schema.member_folder.c.member_id == member_id, schema.member_folder.c.parent_id.is_(None)
    c.execute(sa.update(schema.member_folder).where(*above).values(is_checked=0))
    files = schema.file.c.member_id == member_id, schema.file.c.folder_id.in_(ids), schema.file.c.name == b"0.jpg"
    c.execute(sa.update(schema.file).where(*files).values(md5=bytes(16), xxh3_128=bytes(16)))


def vote(database: HubDatabase, set_id: int, what: str) -> None:
    """Vote once."""
    with timed(what):
        run_vote(database, set_id, NOW)
    with database.read() as c:
        is_open = schema.finding.c.resolved_at.is_(None)
        for kind, count in c.execute(
            sa.select(schema.finding.c.kind, sa.func.count()).where(is_open).group_by(schema.finding.c.kind)
        ):
            print(f"    {count:,} {kind}")


def fill_set(database: HubDatabase, name: str, files: int) -> int:
    """Let three boxes report the same files; return the number of rows."""
    members = [add_member(database, name, number) for number in range(MEMBERS)]
    bodies, top = make_bodies(files)
    for member, box_id in members:
        for body in bodies:
            lines = decode_lines(body)
            next(lines)
            stored = store_folders(database, box_id, 1, read_folders(lines), NOW)
            assert stored is not None
        with database.transaction() as c:
            while digest_subtrees(c, member):
                pass
            assert settle(c, member, top, NOW)
    return files * MEMBERS


def add_member(database: HubDatabase, name: str, number: int) -> tuple[TreeMember, int]:
    """Add a box that is a member of a set."""
    with database.transaction() as c:
        box_name = f"{name}-{number}"
        add_box(c, box_name, NOW, ANYWHERE)
        box_id = c.execute(sa.select(schema.box.c.id).where(schema.box.c.name == box_name)).scalar_one()
        c.execute(sa.update(schema.box).where(schema.box.c.id == box_id).values(seen_at=NOW, clock_ahead_s=0))
        set_id = c.execute(sa.select(schema.replica_set.c.id).where(schema.replica_set.c.name == name)).scalar()
        if set_id is None:
            set_id = insert(c, schema.replica_set, name=name, created_at=NOW)
        counts = {"file_count": 0, "byte_count": 0, "verify_every_s": 86400}
        texts = {"path": b"/srv", "url": "", "excludes": "[]", "policy": "mutable"}
        member_id = insert(c, schema.member, box_id=box_id, root_id=1, set_id=set_id, **counts, **texts)
    return TreeMember(member_id, set_id), box_id


def insert(c: sa.Connection, table: sa.Table, **values: object) -> int:
    """Insert a row and return its number."""
    key = c.execute(sa.insert(table).values(**values)).inserted_primary_key
    assert key is not None
    return int(key[0])


def folder_path(number: int) -> bytes:
    """Return the path of a folder of files."""
    return b"%04d-photos" % number


def make_bodies(files: int) -> tuple[list[bytes], bytes]:
    """Return the bodies that a box sends of a tree, the top folder last, and the digest of the tree."""
    names = [folder_path(number) for number in range((files + IN_FOLDER - 1) // IN_FOLDER)]
    lines = (make_folder(name) for name in sorted(names))
    bodies, subtrees = [], []
    while some := list(islice(lines, BODY_FOLDERS)):
        subtrees += [(name, subtree) for name, subtree, _ in some]
        bodies.append(encode_lines([{"protocol": 1}, *(line for _, _, line in some)]))
    own, content = digest_files([])
    top = digest_subtree(own, subtrees)
    bodies.append(encode_lines([{"protocol": 1}, folder_line(b"", own, content, top, [name for name, _ in subtrees])]))
    return bodies, top


def make_folder(path: bytes) -> tuple[bytes, bytes, dict[str, object]]:
    """Return a folder of files: path, subtree, and the line that a box sends of it."""
    files = sorted(make_file(path, number) for number in range(IN_FOLDER))
    own, content = digest_files(files)
    subtree = digest_subtree(own, [])
    line = folder_line(path, own, content, subtree, []) | {"files": [file_values(file) for file in files]}
    return path, subtree, line


def folder_line(path: bytes, own: bytes, content: bytes, subtree: bytes, folders: list[bytes]) -> dict[str, object]:
    """Return the line of a folder without its files."""
    digests = {"own": own.hex(), "content": content.hex(), "subtree": subtree.hex()}
    names = [name.decode() for name in folders]
    return {"path": path.decode(), **digests, "folders": names, "first": True, "last": True, "files": []}


def make_file(path: bytes, number: int) -> ReportedFile:
    """Return what a box reports of a file."""
    name = b"%d.jpg" % number
    digest = hashlib.md5(path + name).digest()
    times = NOW - 1000, NOW - 100
    return ReportedFile(name, 3_000_000, (NOW - 10_000) * 10**9, digest, digest[::-1], *times, 1, 0)


if __name__ == "__main__":
    main()
