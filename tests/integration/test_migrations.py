"""Migrations: the chain makes what the program reads, with data in it, and a failing step leaves nothing behind."""

from __future__ import annotations

import os
import site
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from integrity.catalog import maintenance, row_seals, schema
from integrity.catalog.compiled_sql import connect_core
from integrity.catalog.connection import Catalog
from integrity.catalog.row_seals import split
from integrity.catalog.seal import Sealer
from integrity.catalog.upgrade import run_migrations, shipped_scripts, upgrade
from integrity.errors import CatalogError, SchemaMismatch
from integrity.model import Reading
from support import AnyPath
from support.catalogs import MIB, NOW, CatalogBox, make_blocks, make_digests, make_reading, take_back
from support.cli import Box
from support.programs import sh

TOP = Path(__file__).parents[2]
BAD_STEP = """
import sqlalchemy as sa
from alembic import op

revision = "{next_revision}"
down_revision = "{head}"


def upgrade():
    op.create_table("half_done", sa.Column("id", sa.Integer))
    with op.batch_alter_table("folder") as batch:
        batch.add_column(sa.Column("half_done", sa.Integer))
    op.execute("{last}")
"""


def shipped() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", shipped_scripts())
    return ScriptDirectory.from_config(config)


REVISIONS = sorted(script.revision for script in shipped().walk_revisions())
NEXT = f"{int(schema.SCHEMA_REVISION) + 1:04}"


def describe_schema(db: sqlite3.Connection) -> dict[str, list[str]]:
    """Give each table's and index's parts in no order: a column that was added stands behind the constraints."""
    rows = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {name: split(sql) for name, sql in rows}


def triggers(db: sqlite3.Connection) -> dict[str, str]:
    """Give each trigger: what it seals is in an order, which must be the same however the catalog was made."""
    return dict(db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))


def dump(path: bytes) -> list[str]:
    with closing(sqlite3.connect(path.decode())) as db:
        return list(db.iterdump())


def without_crc(reading: Reading) -> Reading:
    """Make of a reading what versions up to 0002 knew of a file."""
    blocks = None if reading.blocks is None else replace(reading.blocks, crc64nvme=b"")
    return reading._replace(digests=reading.digests._replace(crc64nvme=None), blocks=blocks)


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[CatalogBox]:
    """Give a catalog with a row of each kind that a step might lose."""
    with CatalogBox(bytes(tmp_path / "catalog.db")) as box:
        box.record_all({b"d/%d" % number: without_crc(make_reading(number)) for number in range(5)})
        large = make_reading("large", blocks=make_blocks("large", 1500), size_bytes=1500 * MIB)
        box.record(b"large", without_crc(large))
        yield box


def test_numbers_follow_each_other_up_to_the_programs() -> None:
    """One line of steps, numbered from 0001, whose last is what the program reads and writes."""
    assert shipped().get_heads() == [schema.SCHEMA_REVISION]
    assert [f"{number:04}" for number in range(1, len(REVISIONS) + 1)] == REVISIONS


def test_steps_make_what_a_new_catalog_has(tmp_path: Path) -> None:
    """An upgraded catalog and a new one are the same, table by table, index by index."""
    path = tmp_path / "new.db"
    Catalog.create(bytes(path)).close()
    with (
        closing(sqlite3.connect(path)) as new,
        closing(sqlite3.connect(tmp_path / "steps.db", isolation_level=None)) as upgraded,
    ):
        run_migrations(upgraded, Sealer(), to=schema.SCHEMA_REVISION)

        assert describe_schema(upgraded) == describe_schema(new)
        assert triggers(upgraded) == triggers(new)
        assert upgraded.execute("SELECT * FROM alembic_version").fetchall() == [(schema.SCHEMA_REVISION,)]


@pytest.mark.parametrize("revision", REVISIONS)
def test_upgrade_from_every_revision_keeps_the_rows(tmp_path: Path, revision: str) -> None:
    """Whatever version wrote the catalog: afterwards all rows are there and every reference holds."""
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as db:
        run_migrations(db, Sealer(), to=revision)
        values = (1, bytes(16), b"/srv", "uuid", 1, "ext4", "active", None, 1, 1, bytes(16))
        names = "id, token, path, fs_id, folder_inode, fs_type, state, state_reason, created_at, file_count, seal_xor"
        db.execute(f"INSERT INTO root ({names}) VALUES ({', '.join('?' * len(values))})", values)
        db.execute("INSERT INTO folder (id, root_id, path) VALUES (1, 1, x'64')")
        boot = {"id": 7, "uuid": "u", "fs_id": "", "mount": "", "first_seen_at": 1, "stopped_cleanly_at": 2}
        known = {name: boot[name] for _, name, *_ in db.execute("PRAGMA table_info(boot)") if name in boot}
        db.execute(f"INSERT INTO boot ({', '.join(known)}) VALUES ({', '.join('?' * len(known))})", [*known.values()])
        ran = {
            name: 1
            for _, name, _, needed, *_ in db.execute("PRAGMA table_info(run)")
            if needed and name not in ("id", "seal")
        }
        ran |= {"job": "scan", "boot_id": 7}
        for values in ({**ran, "finished_at": 1}, ran):
            db.execute(
                f"INSERT INTO run ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", [*values.values()]
            )
        run_migrations(db, Sealer(), to=schema.SCHEMA_REVISION)

        ended, working = db.execute("SELECT last_file_id FROM run ORDER BY id").fetchall()
        assert (ended, working) == ((0 if revision < "0004" else None,), (None,))
        assert db.execute("SELECT id, root_id, path FROM folder").fetchall() == [(1, 1, b"d")]
        db.execute("INSERT INTO folder (id, root_id, path) VALUES (2, 1, x'65')")
        assert db.execute("SELECT parity FROM folder").fetchall() == [(2,), (3,)]
        with connect_core(db, Sealer()) as c:
            assert [] == [*row_seals.find_odd(c)]
        assert db.execute(f"SELECT {', '.join(boot)} FROM boot").fetchall() == [tuple(boot.values())]
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert db.execute("PRAGMA foreign_keys").fetchone() == (1,)


def test_catalog_of_the_first_version_is_upgraded_by_who_writes(filled: CatalogBox) -> None:
    """Its rows keep their seals, new ones can be written beside them, and a copy of it as it was is kept."""
    filled.catalog.close()
    take_back(filled.path, "0001")
    with pytest.raises(SchemaMismatch, match="catalog upgrade"):
        Catalog.open(filled.path, writes=False)

    with filled.reopen() as catalog:
        old, new = filled.find(b"d/1"), filled.get(filled.record(b"new"))
        assert old is not None
        assert (old.is_sealed, old.digests) == (True, make_digests(1)._replace(crc64nvme=None))
        assert (new.is_sealed, new.digests) == (True, make_digests(b"new"))
        assert maintenance.check(catalog).is_right
        with catalog.transaction() as c:
            values = {"schedule": "scrub", "root_id": filled.root.id, "due_at": None, "started_at": NOW}
            c.execute(schema.schedule_run.insert().values(values))
            assert c.execute(schema.schedule_run.select()).one().finished_at is None
        assert filled.check_tally().is_right
    copies = [
        name
        for name in os.listdir(os.path.dirname(filled.path))
        if b".before-%s-" % schema.SCHEMA_REVISION.encode() in name
    ]
    assert len(copies) == 1


def with_one_more_step(folder: Path, last: str) -> str:
    """Copy the shipped steps and add one."""
    shipped_folder = Path(shipped_scripts())
    (folder / "versions").mkdir(parents=True)
    for script in [shipped_folder / "env.py", *sorted((shipped_folder / "versions").glob("*.py"))]:
        (folder / script.relative_to(shipped_folder)).write_bytes(script.read_bytes())
    bad_step = BAD_STEP.format(last=last, head=schema.SCHEMA_REVISION, next_revision=NEXT)
    (folder / "versions" / f"v{NEXT}_bad.py").write_text(bad_step)
    return str(folder)


@pytest.mark.parametrize(
    "last",
    ["INSERT INTO no_such_table VALUES (1)", "DELETE FROM root", "INSERT INTO meta VALUES ('uuid', 'twice')"],
)
def test_failing_step_leaves_nothing_behind(filled: CatalogBox, tmp_path: Path, last: str) -> None:
    """Neither a half-made table nor a lost row nor another version: the catalog goes on as it was."""
    before = dump(filled.path)
    filled.catalog.close()
    scripts = with_one_more_step(tmp_path / "scripts", last)
    with closing(sqlite3.connect(filled.path.decode(), isolation_level=None)) as db:
        with pytest.raises(CatalogError, match="was undone"):
            upgrade(filled.path, db, Sealer(), to=NEXT, scripts=scripts, clock=lambda: NOW)
        assert not db.in_transaction
    assert dump(filled.path) == before
    assert dump(filled.path + f".before-{NEXT}-20251121T044000Z".encode()) == before
    with filled.reopen() as catalog:
        assert maintenance.check(catalog).is_right


def test_good_step_rebuilds_a_table_without_losing_what_points_to_it(filled: CatalogBox, tmp_path: Path) -> None:
    """SQLite can only copy a table to change it; the rows that point to it stay."""
    filled.catalog.close()
    scripts = with_one_more_step(tmp_path / "scripts", "UPDATE folder SET half_done = 1")
    with closing(sqlite3.connect(filled.path.decode(), isolation_level=None)) as db:
        upgrade(filled.path, db, Sealer(), to=NEXT, scripts=scripts, clock=lambda: NOW)
        assert db.execute("SELECT count(*), sum(half_done) FROM folder").fetchone() == (2, 2)
        assert db.execute("SELECT count(*) FROM file JOIN folder ON folder.id = folder_id").fetchone() == (6,)
        assert db.execute("SELECT version_num FROM alembic_version").fetchone() == (NEXT,)


def extract_older_program(folder: Path) -> None:
    """Extract the program as it was before the last step was added."""
    script = f"migrations/versions/{os.path.basename(shipped().get_revision('head').path)}"
    found = ("log", "-1", "--format=%H", "--diff-filter=A", "--", script)
    commit = subprocess.run(["git", *found], cwd=TOP, capture_output=True, text=True, check=False).stdout.strip()
    archive = ("archive", f"--output={folder}/older.tar", f"{commit}^", "daemon", "migrations")
    if not commit or subprocess.run(["git", *archive], cwd=TOP, check=False).returncode != 0:
        pytest.skip("needs the history of this checkout")
    sh("tar", "-x", "-f", folder / "older.tar", "-C", folder)
    (folder / "migrations").rename(folder / "daemon/integrity/migrations")


def run_older(folder: Path, box: Box, *args: AnyPath, expect: int) -> str:
    """Run the older program, in pure Python, with this environment's libraries and without its site module."""
    modules = os.pathsep.join([str(folder / "daemon"), *site.getsitepackages()])
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-m", "integrity", *args],
        env=box.environment | {"PYTHONPATH": modules},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_older_program_goes_back_to_the_catalog_before_the_upgrade(integrity: Box, root: Path, tmp_path: Path) -> None:
    """It refuses the upgraded one untouched, restores the copy from before, and this program upgrades it once more."""
    extract_older_program(tmp_path)
    (root / "file").write_bytes(b"content")
    run_older(tmp_path, integrity, "scan", root, expect=0)
    assert 1 == integrity.summary("scrub", root, expect=0)["files_verified"]
    upgraded = dump(os.fsencode(integrity.catalog))

    assert "newer integrity" in run_older(tmp_path, integrity, "status", expect=4)
    assert "newer integrity" in run_older(tmp_path, integrity, "scan", expect=4)
    assert upgraded == dump(os.fsencode(integrity.catalog))
    (copy,) = tmp_path.rglob("catalog.db.before-*")
    run_older(tmp_path, integrity, "catalog", "restore", "--yes", copy, expect=0)
    assert "1 file: 1 verified" in run_older(tmp_path, integrity, "scrub", root, expect=0)
    assert 1 == integrity.summary("scrub", root, expect=0)["files_verified"]


def test_refusal_of_a_newer_catalog_names_the_copy_to_go_back_to(filled: CatalogBox) -> None:
    """The copy from before the first upgrade that this program does not know, not an older or a later one."""
    filled.catalog.close()
    with closing(sqlite3.connect(filled.path.decode())) as db:
        db.execute("UPDATE alembic_version SET version_num = '9999'")
        db.commit()
    for name in (f"{schema.SCHEMA_REVISION}-20261101", f"{NEXT}-20261102", f"{NEXT}-20261103", "9999-20261104"):
        Path(f"{filled.path.decode()}.before-{name}T000000Z").touch()

    with pytest.raises(SchemaMismatch, match=rf"catalog restore \S+\.before-{NEXT}-20261103T000000Z$"):
        Catalog.open(filled.path, writes=True)


def test_copies_that_were_the_same_stay_witnesses(tmp_path: Path) -> None:
    """0011: what a comparison found the same was found then, under times that nobody kept; what differed was not."""
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as db:
        run_migrations(db, Sealer(), to="0010")
        values = (1, bytes(16), b"/srv", "uuid", 1, "ext4", "active", None, 1, 1, bytes(16))
        names = "id, token, path, fs_id, folder_inode, fs_type, state, state_reason, created_at, file_count, seal_xor"
        db.execute(f"INSERT INTO root ({names}) VALUES ({', '.join('?' * len(values))})", values)
        db.execute(
            "INSERT INTO copy (id, root_id, prefix, name, url, has_bytes, created_at) VALUES (1,1,x'','n','/n',1,1)"
        )
        states = (
            "INSERT INTO copy_file (copy_id, file_id, version, vote, compared_at, read_at) VALUES (1, ?, ?, ?, ?, ?)"
        )
        db.executemany(states, [(7, 3, "same", 100, 90), (8, 1, "differs", 100, 90), (9, 1, "same", 100, 90)])
        db.execute("UPDATE copy_file SET seal = zeroblob(16) WHERE file_id = 9")  # as damage leaves it
        run_migrations(db, Sealer(), to=schema.SCHEMA_REVISION)
        found = db.execute(
            "SELECT file_id, vote, found_version, found_at, found_mtime_ns FROM copy_file ORDER BY file_id"
        )

        assert [(7, "same", 3, 100, None), (8, "differs", None, None, None)] == found.fetchall()
