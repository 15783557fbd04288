"""The database of the hub: the same in PostgreSQL and SQLite."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from alembic.command import upgrade

from integrity.errors import HubDatabaseAway, HubDatabaseError
from integrity.hub import audit, schema
from integrity.hub.boxes import load_tokens
from integrity.hub.database import HubDatabase, load_files, read_revision
from integrity.hub.members import Grants, find_changed_sets, load_grants
from integrity.hub.migrate import _configure, migrate
from integrity.hub.schema import shard, shard_worker
from support.postgres import PostgresServer


def open_empty(url: str) -> HubDatabase:
    return HubDatabase.open(url, any_revision=True)


def test_migrations_make_the_schema_in_postgresql(postgres: PostgresServer) -> None:
    """The tables that migrations make in PostgreSQL are those that the program defines."""
    dumps = []
    for make in (migrate, lambda database: schema.metadata.create_all(database.engine)):
        url = postgres.create_database()
        database = open_empty(url)
        make(database)
        database.close()
        dumps.append(postgres.dump_schema(url))
        postgres.drop_database(url)
    migrated, defined = dumps

    assert defined == migrated
    assert any("CREATE UNIQUE INDEX finding_unresolved" in statement for statement in migrated)


def split_definition(sql: str) -> list[str]:
    """Return the columns and constraints of a table; SQLite writes added columns behind the constraints."""
    return sorted(part.strip(" ()") for part in " ".join(sql.split()).split(","))


def test_migrations_make_the_schema_in_sqlite(tmp_path: Path) -> None:
    """The tables that migrations make in SQLite are those that the program defines."""
    dumps = []
    for name, make in (("a", migrate), ("b", lambda database: schema.metadata.create_all(database.engine))):
        database = open_empty(str(tmp_path / name))
        make(database)
        database.close()
        with sqlite3.connect(tmp_path / name) as db:
            rows = db.execute(
                "SELECT name, sql FROM sqlite_master WHERE name NOT IN ('alembic_version', 'sqlite_stat1')"
                " ORDER BY name"
            )
            dumps.append([(name, split_definition(sql)) for name, sql in rows if sql is not None])
        db.close()
    migrated, defined = dumps

    assert defined == migrated


def test_sets_of_an_older_version_vote_once_more(empty_url: str) -> None:
    """It did not count their changes, so whether the last vote saw them all is not known."""
    database = open_empty(empty_url)
    with database.transaction() as c:
        upgrade(_configure(c), "0002")
        for name, changed_at in (("reported", 5), ("new", None)):
            values = {"name": name, "created_at": 1, "changed_at": changed_at}
            c.execute(sa.insert(schema.replica_set).values(**values))
    assert "0002" == migrate(database)

    with database.read() as c:
        assert [1] == find_changed_sets(c)
    database.close()


def test_migrating_twice_changes_nothing(empty_url: str) -> None:
    """The first migration finds an empty database, the second one the newest schema."""
    database = open_empty(empty_url)

    assert None is migrate(database)
    assert schema.SCHEMA_REVISION == migrate(database)
    with database.read() as c:
        assert schema.SCHEMA_REVISION == read_revision(c)
    database.close()


def test_empty_database_is_refused_with_the_command(empty_url: str) -> None:
    """A database without tables says how to make them; an SQLite file that is not there is not made by a look at it."""
    command = "integrity hub migrate" if "://" in empty_url else "integrity hub run"
    with pytest.raises(HubDatabaseError, match=command):
        HubDatabase.open(empty_url)


def test_newer_schema_is_refused(hub_url: str) -> None:
    """A hub does not touch what a newer version made."""
    database = HubDatabase.open(hub_url)
    with database.transaction() as c:
        c.execute(sa.update(sa.table("alembic_version", sa.column("version_num"))).values(version_num="9999"))

    with pytest.raises(HubDatabaseError, match="newer version"):
        HubDatabase.open(hub_url)
    with pytest.raises(HubDatabaseError, match="newer version"):
        migrate(database)
    database.close()


def fail_after(_: object) -> None:
    raise ZeroDivisionError


def test_failed_transaction_leaves_nothing(hub_database: HubDatabase) -> None:
    """An error in the block undoes what was written in it."""
    with pytest.raises(ZeroDivisionError), hub_database.transaction() as c:
        fail_after(c.execute(sa.insert(schema.replica_set).values(name="photos", created_at=1)))

    with hub_database.read() as c:
        assert 0 == c.execute(sa.select(sa.func.count()).select_from(schema.replica_set)).scalar_one()


def test_findings_of_an_older_version_count_their_files(empty_url: str) -> None:
    """As their evidence says; and a box that only worked on shared trees is known to have called."""
    database = open_empty(empty_url)
    with database.transaction() as c:
        upgrade(_configure(c), "0003")
        c.exec_driver_sql("INSERT INTO replica_set (name, created_at) VALUES ('photos', 1)")
        box = "INSERT INTO box (name, token_hash, created_at, last_number, last_chain) VALUES ('nas', 'x', 1, 0, 'x')"
        c.exec_driver_sql(box)
        tree = "INSERT INTO shared_tree (name, created_at, inode, settings, verify_every_s) VALUES ('t', 1, 1, '{}', 1)"
        c.exec_driver_sql(tree)
        worker = (
            "INSERT INTO shard_worker (id, tree_id, box_id, began_at, seen_at, done_bytes) VALUES (5, 1, 1, 1, 77, 0)"
        )
        c.exec_driver_sql(worker)
        for path, evidence in (("", '[{"files": 20201}]'), ("a.jpg", "[]"), ("", "[]")):
            values = {"kind": f"kind{path}{evidence}", "certainty": "likely", "state": "open", "headline": "x"}
            row = {**values, "set_id": 1, "path": path.encode(), "opened_at": 1, "updated_at": 1, "explanation": "x"}
            table = sa.table("finding", *map(sa.column, (*row, "evidence")))
            c.execute(sa.insert(table).values(**row, evidence=evidence))
    assert "0003" == migrate(database)

    with database.read() as c:
        assert [20_201, 1, 1] == list(
            c.execute(sa.select(schema.finding.c.subjects).order_by(schema.finding.c.id)).scalars()
        )
        assert 77 == c.execute(sa.select(schema.box.c.worked_at)).scalar()
    database.close()


def test_boxes_of_an_older_version_stay_in_what_they_are_in(empty_url: str) -> None:
    """Members of sets, present and former workers of trees; nobody gets more than that."""
    database = open_empty(empty_url)
    with database.transaction() as c:
        upgrade(_configure(c), "0004")
        for name in ("nas", "worker", "former", "none"):
            columns = "name, token_hash, created_at, last_number, last_chain"
            c.exec_driver_sql(f"INSERT INTO box ({columns}) VALUES ('{name}', '{name}', 1, 0, 'x')")
        c.exec_driver_sql("INSERT INTO replica_set (name, created_at) VALUES ('photos', 1)")
        values = {"root_id": 1, "set_id": 1, "path": b"/srv", "url": "", "excludes": "[]", "policy": "mutable"}
        numbers = {"verify_every_s": 1, "file_count": 1, "byte_count": 1}
        row = {"box_id": 1, **values, **numbers}
        c.execute(sa.insert(sa.table("member", *map(sa.column, row))).values(**row))
        columns = "name, created_at, inode, settings, verify_every_s"
        c.exec_driver_sql(f"INSERT INTO shared_tree ({columns}) VALUES ('a: b', 1, 1, '{{}}', 1)")
        columns = "id, tree_id, box_id, began_at, seen_at, done_bytes"
        c.exec_driver_sql(f"INSERT INTO shard_worker ({columns}) VALUES (5, 1, 2, 1, 77, 0)")
        for who, subject in (("former", "a: b: shard 7"), ("gone", "a: b: shard 7"), ("none", "b: shard 1")):
            noted = {"verb": "shard_stored", "subject": subject, "outcome": ""}
            audit.record(c, at=1, who=f"box:{who}", address="", **noted)
    assert "0004" == migrate(database)

    with database.read() as c:
        granted = {box.name: load_grants(c, box.id) for box in load_tokens(c).values()}
    database.close()
    photos, tree = frozenset({"photos"}), frozenset({"a: b"})
    assert {
        "nas": Grants(sets=photos),
        "worker": Grants(trees=tree),
        "former": Grants(trees=tree),
        "none": Grants(),
    } == granted


def test_shared_trees_of_an_older_version_go_on(postgres: PostgresServer) -> None:
    """A tree that was not surveyed has a shard for its survey; workers get new numbers; the former queue is gone."""
    url = postgres.create_database()
    database = open_empty(url)
    with database.transaction() as c:
        upgrade(_configure(c), "0010")
        c.exec_driver_sql(
            "CREATE TYPE procrastinate_status AS ENUM ('todo'); CREATE TABLE procrastinate_jobs (id bigint);"
            "CREATE FUNCTION procrastinate_fetch(a procrastinate_status) RETURNS int LANGUAGE sql AS 'SELECT 1'"
        )
        c.exec_driver_sql(
            "INSERT INTO box (name, token_hash, created_at, last_number, last_chain) VALUES ('nas', 'x', 1, 0, 'x');"
            "INSERT INTO shared_tree (name, created_at, inode, settings, verify_every_s) VALUES ('t', 7, 1, '{}', 1);"
            "INSERT INTO shard_worker (id, tree_id, box_id, began_at, seen_at, done_bytes) VALUES (5, 1, 1, 1, 77, 0)"
        )
    assert "0010" == migrate(database)
    with database.transaction() as c:
        values = {"tree_id": 1, "box_id": 1, "began_at": 9, "seen_at": 9, "done_bytes": 0}
        (number,) = c.execute(sa.insert(shard_worker).values(values)).inserted_primary_key or [0]
        rows = c.execute(sa.select(shard.c.created_at, shard.c.due_at, shard.c.worker_id)).all()
        left = c.exec_driver_sql("SELECT count(*) FROM pg_class WHERE relname LIKE 'procrastinate%%'").scalar()
    database.close()

    assert ([(7, 7, None)], 0) == (rows, left)
    assert number > 5


def test_reader_sees_one_moment(hub_database: HubDatabase) -> None:
    """What is written while somebody reads appears in the next reading only."""
    count = sa.select(sa.func.count()).select_from(schema.replica_set)
    with hub_database.read() as c:
        before = c.execute(count).scalar_one()
        with hub_database.transaction() as writer:
            writer.execute(sa.insert(schema.replica_set).values(name="photos", created_at=1))
        during = c.execute(count).scalar_one()

    assert (0, 0) == (before, during)
    with hub_database.read() as c:
        assert 1 == c.execute(count).scalar_one()


def test_writers_wait_for_each_other(hub_database: HubDatabase) -> None:
    """Eight threads that write to one row lose nothing."""
    with hub_database.transaction() as c:
        c.execute(sa.insert(schema.replica_set).values(name="photos", created_at=0))

    def count() -> None:
        for _ in range(20):
            with hub_database.transaction() as c:
                c.execute(sa.update(schema.replica_set).values(created_at=schema.replica_set.c.created_at + 1))

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with hub_database.read() as c:
        assert 160 == c.execute(sa.select(schema.replica_set.c.created_at)).scalar_one()


def test_one_of_two_writers_that_wait_for_each_other_fails_as_passing(postgres: PostgresServer) -> None:
    """The server ends one of them, which can be tried again; the other goes on."""
    url = postgres.create_database(template="hub_template")
    database, both_wrote = HubDatabase.open(url), threading.Barrier(2)
    with database.transaction() as c:
        c.execute(sa.insert(schema.replica_set), [{"name": name, "created_at": 0} for name in "ab"])

    def write(*names: str) -> None:
        with database.transaction() as c:
            for name in names:
                c.execute(sa.update(schema.replica_set).where(schema.replica_set.c.name == name).values(created_at=1))
                if name == names[0]:
                    both_wrote.wait(30)

    with ThreadPoolExecutor() as threads:
        failures = [one.exception() for one in [threads.submit(write, "a", "b"), threads.submit(write, "b", "a")]]
    assert {HubDatabaseAway, type(None)} == set(map(type, failures))
    database.close()
    postgres.drop_database(url)


ROW = (1, 1, b"a.jpg", 1, 1, None, None, 1, None, 0, 0)


def test_full_disk_passes_also_where_the_driver_writes(hub_database: HubDatabase, hub_url: str) -> None:
    """D3: not only for statements of the library; nothing of the transaction is kept, and later the same works."""
    fill_disk(hub_database, hub_url)
    for write in (
        lambda c: load_files(c, schema.file, ((*ROW[:2], b"%d" % n, *ROW[3:]) for n in range(10_000))),
        lambda c: [
            c.execute(sa.insert(schema.replica_set).values(name=f"{n}" * 1000, created_at=1)) for n in range(1000)
        ],
    ):
        with (
            pytest.raises(HubDatabaseAway, match=r"can't be used now: .*(full|No space)"),
            hub_database.transaction() as c,
        ):
            write(c)
    if hub_database.is_postgres:
        PostgresServer.free_disk(hub_url)
    else:
        sa.event.remove(hub_database.engine, "connect", _limit_pages)
    with hub_database.transaction() as c:
        load_files(c, schema.file, [ROW])
    with hub_database.read() as c:
        assert 1 == c.execute(sa.select(sa.func.count()).select_from(schema.file)).scalar_one()


def fill_disk(database: HubDatabase, url: str) -> None:
    if database.is_postgres:
        PostgresServer.fill_disk(url, "file", "replica_set")
    else:
        sa.event.listen(database.engine, "connect", _limit_pages)


def _limit_pages(db: sqlite3.Connection, _: object) -> None:
    db.execute("PRAGMA max_page_count = 100")


def test_defect_of_ours_is_not_taken_for_a_full_disk(hub_database: HubDatabase) -> None:
    """A row that is there twice, and a statement that the database does not understand."""
    with pytest.raises((sqlite3.Error, psycopg.Error)), hub_database.transaction() as c:
        load_files(c, schema.file, [ROW, ROW])
    with pytest.raises(sa.exc.DBAPIError), hub_database.transaction() as c:
        c.exec_driver_sql("SELECT nothing FROM nowhere")
    if hub_database.is_postgres:
        with pytest.raises(sa.exc.DBAPIError), hub_database.read() as c:
            c.execute(sa.insert(schema.replica_set).values(name="photos", created_at=1))


def test_password_is_not_shown() -> None:
    """Messages about a database have its URL without the password."""
    with pytest.raises(HubDatabaseAway) as caught:
        HubDatabase.open("postgresql://hub:hunter2@127.0.0.1:1/hub")

    assert "127.0.0.1" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    """An SQLite file in a folder that is not there is refused."""
    with pytest.raises(HubDatabaseError, match="folder is missing"):
        HubDatabase.open(str(tmp_path / "nowhere" / "hub.db"))
