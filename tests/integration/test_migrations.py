"""Upgrades of real catalogs of older schemas: each row arrives or is named, and the former file stays as it was."""

from __future__ import annotations

import hashlib
import json
import os
import random
import site
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from integrity.catalog.connection import Catalog
from integrity.catalog.copying import read_schema
from integrity.catalog.db import SCHEMA_REVISION, Connection
from integrity.errors import CatalogCorrupt, CatalogError, SchemaMismatch
from support import AnyPath
from support.cli import Box
from support.killpoints import is_possible
from support.mounts import small_tmpfs
from support.older import REVISIONS, put_older
from support.resident import MissingCommitError, install_commit
from truth.upgrades import OLDER
from truth.versions import INSTALLED

LEFT_BEHIND = {"alembic_version", "checkpoint", "checkpoint_run", "copy_reading", "sqlite_sequence"}
CHANGED = {"folder.fingerprint", "root.file_count"}
WRONG = ("2020/same.jpg", "2020/holes")  # a wrong seal of a file, and of a block of a file
NEXT = f"{int(SCHEMA_REVISION) + 1:04}"


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest, integrity: Box) -> str:
    """Have a catalog of each older schema; return which."""
    integrity.configure("")
    put_older(integrity.catalog, request.param)
    return str(request.param)


@pytest.fixture
def older(integrity: Box) -> Path:
    """Have a catalog of the schema before this one; return its path."""
    integrity.configure("")
    put_older(integrity.catalog, REVISIONS[-1])
    return integrity.catalog


def change(catalog: Path, sql: str) -> None:
    """Change an older catalog, without its seals."""
    with closing(Connection(bytes(catalog), is_checked=False)) as c:
        c.driver.create_scalar_function("row_seal", lambda *_: None)
        c.run(sql)


def read(catalog: AnyPath) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table that is taken over, by columns, without what an upgrade is to change."""
    with closing(Connection(os.fsencode(catalog), "mode=ro", is_checked=False)) as c:
        tables = set(c.column("SELECT name FROM sqlite_master WHERE type = 'table'")) - LEFT_BEHIND - {"tally"}
        found = {}
        for table in tables:
            names = c.column("SELECT name FROM pragma_table_info(?)", table)
            kept = [name for name in names if f"{table}.{name}" not in CHANGED]
            query = f"SELECT {', '.join(kept)} FROM {table}"
            found[table] = [dict(zip(kept, row, strict=True)) for row in c.rows(query)]
        return found


def read_as_before(catalog: AnyPath) -> dict[str, list[dict[str, Any]]]:
    """Return the same in the words of the schemas before 0012, of either; blocks of candidates under their number."""
    found = read(catalog)
    numbers = {row["id"]: row["version"] + 1 for row in found["file"]}
    for row in found["block_run"]:
        row["version"] = row["version"] or numbers[row["file_id"]]
    for row in found.get("gate", ()):
        row["last_history_id"] = row.pop("last_version_id", row.get("last_history_id"))
    if "version" in found:
        rows = found.pop("version")
        former = [row for row in rows if row["state"] == "former"]
        found["history"] = [{**row, "version": row["number"]} for row in former]
        found["candidate"] = [
            {**row, "seen_at": row["recorded_at"], "because": row["reason"]} for row in rows if row not in former
        ]
    return found


def find_lost(before: AnyPath, after: AnyPath) -> dict[str, int]:
    """Return how many rows of each table did not arrive with each value that both schemas have."""
    old, new = read_as_before(before), read_as_before(after)
    assert old.keys() <= new.keys()
    lost = {}
    for table, rows in old.items():
        common = [name for name in rows[0] if not new[table] or name in new[table][0]] if rows else []
        arrived = [{name: row[name] for name in common} for row in new[table]]
        gone = [row for row in rows if {name: row[name] for name in common} not in arrived]
        assert len(arrived) == len(rows) - len(gone), table
        lost |= {table: len(gone)} if gone else {}
    return lost


def find_former(catalog: Path) -> Path:
    """Return the file that an upgrade kept."""
    (found,) = (path for path in catalog.parent.glob(f"{catalog.name}.*-20*Z"))
    assert found.name.startswith(f"{catalog.name}.before-{SCHEMA_REVISION}-")
    return found


def test_all_rows_arrive_but_damaged_ones(integrity: Box, revision: str) -> None:
    """These are told, the former file is kept to the byte, and the new one is what a new catalog would be."""
    former = integrity.catalog.read_bytes()
    assert "catalog upgrade" in integrity.run("status", expect=4).stderr
    done = integrity.run("catalog", "upgrade", expect=0)

    kept = find_former(integrity.catalog)
    assert former == kept.read_bytes()
    assert str(kept) in done.stdout
    lost = {"block_run": 1, "copy_file": 1, "file": 2, "history": 1}
    assert {name: lost[name] for name in lost if revision > "0004" or name in ("block_run", "file")} == find_lost(
        kept, integrity.catalog
    )
    for name in WRONG:
        assert f"path=/srv/nas/photos/{name}" in done.stderr
    integrity.run("catalog", "check", expect=0)
    assert [] != integrity.findings("findings", expect=1)
    with closing(Connection(b"")) as new, closing(Connection(bytes(integrity.catalog), "mode=ro")) as c:
        new.driver.execute(read_schema())
        definitions = "SELECT type, name, sql FROM sqlite_schema ORDER BY name"
        assert [*new.rows(definitions)] == [*c.rows(definitions)]
        assert SCHEMA_REVISION == c.value("SELECT version_num FROM alembic_version")


def test_what_older_schemas_did_not_know(integrity: Box, revision: str) -> None:
    """Copies that were the same then are witnesses since; runs that ended had seen all files; boots were whole."""
    before = read(integrity.catalog)
    integrity.run("catalog", "upgrade", expect=0)

    after = read(integrity.catalog)
    for row in after["copy_file"]:
        was_same = row["vote"] == "same"
        if revision < "0011":
            known = (row["version"], row["compared_at"]) if was_same else (None, None)
            assert (*known, None) == (row["found_version"], row["found_at"], row["found_mtime_ns"])
    if revision < "0004":
        assert {max(int(str(row["id"])) for row in before["file"])} == {row["last_file_id"] for row in after["run"]}
        assert {("", "")} == {(row["fs_id"], row["mount"]) for row in after["boot"]}


def test_what_the_log_of_the_older_one_has_arrives(integrity: Box, older: Path) -> None:
    """Also if the older program was killed, and nobody has read its log since."""
    c = Connection(bytes(older), is_checked=False)
    c.driver.create_scalar_function("row_seal", lambda *_: None)
    c.run("PRAGMA wal_autocheckpoint = 0")
    c.run("UPDATE meta SET value = 'of before' WHERE key = 'uuid'")
    c.run("UPDATE meta SET value = 'keyed' WHERE key = 'seal_check'")  # else the seal would be wrong
    c.close(keeps_log=True)
    assert Path(f"{older}-wal").stat().st_size
    integrity.run("catalog", "upgrade", expect=0)

    assert {"key": "uuid", "value": "of before"} in read(older)["meta"]
    former = find_former(older)
    assert not Path(f"{former}-wal").exists()
    assert "of before" in {row["value"] for row in read(former)["meta"]}


def test_seals_with_a_key_are_not_compared(integrity: Box, older: Path) -> None:
    """Who has the key may compare them with the older program; all rows arrive, and none is called damaged."""
    change(older, "UPDATE meta SET value = '00' WHERE key = 'seal_check'")
    done = integrity.run("catalog", "upgrade", expect=0)

    assert ({}, "") == (find_lost(find_former(older), older), done.stderr)


def test_findings_are_not_queued_for_the_hub_again(integrity: Box, older: Path) -> None:
    """What the hub has confirmed stays confirmed, and what waited still waits."""
    with closing(Connection(bytes(older), "mode=ro", is_checked=False)) as c:
        before = [*c.rows("SELECT id, kind, item_id FROM report_change")]
    integrity.run("catalog", "upgrade", expect=0)

    with closing(Connection(bytes(older), "mode=ro")) as c:
        assert before == [*c.rows("SELECT id, kind, item_id FROM report_change")]


def test_lost_boot_takes_no_file_with_it(integrity: Box, older: Path) -> None:
    """Only the runs that were in it; when files were seen last is not known then."""
    change(older, "UPDATE boot SET uuid = 'another'")
    integrity.run("catalog", "upgrade", expect=0)

    after = read(older)
    assert (9, {None}) == (len(after["file"]), {row["boot_id"] for row in after["file"]})
    integrity.run("catalog", "check", expect=0)


def test_lost_root_is_no_upgrade(older: Path) -> None:
    """All records of the folder would be left behind with it, so the catalog stays as it was."""
    change(older, "UPDATE root SET state_reason = 'no seal has this'")
    before = older.read_bytes()
    with pytest.raises(CatalogError, match="the row of a watched folder in it is damaged"):
        Catalog.open(bytes(older), writes=True)

    assert before == older.read_bytes()
    assert [] == [*older.parent.glob("catalog.db.[!l]*")]


def test_damaged_pages_of_an_older_one_are_no_upgrade(older: Path) -> None:
    """A backup is brought back first: what SQLite can't read would be left out without a word."""
    with open(older, "r+b") as file:
        file.seek(10 * 4096)
        file.write(random.Random(1).randbytes(4096))
    before = older.read_bytes()
    with pytest.raises(CatalogCorrupt, match="catalog restore"):
        Catalog.open(bytes(older), writes=True)

    assert before == older.read_bytes()


def test_folder_may_have_any_name(tmp_path: Path) -> None:
    """Also one that means something in a URI."""
    folder = os.fsencode(tmp_path) + b"/a?b=%20#c \xff"
    os.mkdir(folder)
    put_older(folder + b"/catalog.db", REVISIONS[0])
    with Catalog.open(folder + b"/catalog.db", writes=True) as catalog:
        former = catalog.before_upgrade

    assert former is not None
    assert {"file": 2, "block_run": 1} == find_lost(former, folder + b"/catalog.db")


@pytest.mark.root
def test_no_room_is_told_with_both_figures(integrity: Box, tmp_path: Path) -> None:
    """Before anything is written."""
    integrity.configure("")
    with small_tmpfs(tmp_path / "disk", 512 << 10):
        integrity.catalog = tmp_path / "disk/catalog.db"
        put_older(integrity.catalog, REVISIONS[-1])
        before = integrity.catalog.read_bytes()
        done = integrity.run("catalog", "upgrade", expect=4)

        assert before == integrity.catalog.read_bytes()
    assert f"needs {len(before) >> 10} KiB; " in done.stderr
    assert "KiB are free; free more, or use the older integrity; the catalog is as it was" in done.stderr


# A process of its own, for a fork must have one thread only: it kills an upgrade at its calls, and tells what was left.
_SCRIPT = """
import hashlib, json, os, shutil, sys
sys.path.insert(0, sys.argv[1])
from support.cli import run_here
from support.killpoints import run_forked
first, step, errno = map(int, sys.argv[2:])
home = os.environ["HOME"]
shutil.copytree(home, home + ".kept")
def look():
    names = [name for name in os.listdir(home) if name.startswith("catalog")]
    return {name: hashlib.sha256(open(f"{home}/{name}", "rb").read()).hexdigest() for name in names}
def begin():
    shutil.rmtree(home)
    shutil.copytree(home + ".kept", home)
begin()
run_here(["catalog", "upgrade"], dict(os.environ))
number, was_killed = first, True
while was_killed:
    begin()
    run = run_forked([["catalog", "upgrade"]], {}, kill_at=number, errno=errno)
    was_killed, left = run.was_killed or bool(errno and run.completed[0].code), look()
    then = run_forked([["catalog", "upgrade"], ["catalog", "check"]], {}).completed
    ends = [(one.code, one.stdout + one.stderr) for one in (*run.completed, *then)]
    print(json.dumps([number, left, look(), ends]))
    number += step
"""


def interrupt(box: Box, first: int, step: int, errno: int = 0) -> list[list[dict[str, str]]]:
    """Interrupt an upgrade at its calls, and do it once more; return the digests of files in between and at the end."""
    arguments = [str(Path(__file__).parents[1]), str(first), str(step), str(errno)]
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, *arguments], env=box.environment, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    for number, _, _, ends in found:
        (upgraded, _), (checked, _) = ends[-2:]
        assert (0, 0) == (upgraded, checked), (number, ends)
        assert {0, 4} >= {code for code, _ in ends}, (number, ends)
        assert "Traceback" not in str(ends), (number, ends)
    return [each[1:3] for each in found]


@pytest.mark.skipif(not is_possible(), reason="needs x86-64")
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("errno", [0, 28], ids=["kill", "ENOSPC"])
def test_interrupted_upgrade_leaves_the_old_or_the_new_one(
    integrity: Box, older: Path, errno: int, request: pytest.FixtureRequest
) -> None:
    """Whenever it is killed, or the disk is full; then it is done to its end, with the former one beside it."""
    before = hashlib.sha256(older.read_bytes()).hexdigest()
    step = 13 if "not long" in request.config.getoption("-m") else 1
    ends = interrupt(integrity, random.randrange(1, step + 1), step, errno)

    assert len(ends) > 300 // step
    for left, after in ends:
        has_former = any(".before-" in name for name in left)
        assert before in left.values()
        assert {"catalog.db", "catalog.db.restoring"} & left.keys() if has_former else left["catalog.db"] == before
        (former,) = (name for name in after if name.endswith("Z"))
        assert former.startswith(f"catalog.db.before-{SCHEMA_REVISION}-")
        assert before == after[former]
        others = {f"catalog.db{suffix}" for suffix in ("", "-wal", "-shm", ".lock", ".upgrading")}
        assert others >= {*after} - {former}


def run_older(program: Path, box: Box, *args: AnyPath, expect: int) -> str:
    """Run an older program, in pure Python, with this environment's libraries and without its site module."""
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-m", "integrity", *args],
        env=box.environment | {"PYTHONPATH": os.pathsep.join([str(program), *site.getsitepackages()])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "commit",
    [pytest.param(OLDER["1.0.0"], id="1.0.0"), pytest.param(OLDER["schema 0011"], marks=pytest.mark.long, id="0011")],
)
def test_older_program_goes_back_to_the_catalog_before_the_upgrade(integrity: Box, root: Path, commit: str) -> None:
    """It refuses the upgraded one untouched, restores the one before, and this program upgrades that once more."""
    try:
        program = install_commit(commit, INSTALLED, is_native=False)
    except MissingCommitError as error:
        pytest.skip(str(error))
    (root / "file").write_bytes(b"content")
    run_older(program, integrity, "scan", root, expect=0)
    assert 1 == integrity.summary("scrub", root, expect=0)["files_verified"]
    upgraded, former = integrity.catalog.read_bytes(), find_former(integrity.catalog)

    for command in ("status", "scan", "scrub", "findings"):
        said = run_older(program, integrity, command, expect=4)
        assert "newer integrity" in said
        assert f"catalog restore {former}" in said
    assert upgraded == integrity.catalog.read_bytes()
    run_older(program, integrity, "catalog", "restore", "--yes", former, expect=0)
    assert "1 file: 1 verified" in run_older(program, integrity, "scrub", root, expect=0)
    assert 1 == integrity.summary("scrub", root, expect=0)["files_verified"]
    integrity.run("catalog", "check", expect=0)


def test_former_catalog_is_restored(integrity: Box, older: Path) -> None:
    """What was recorded since is gone then; opening it upgrades it once more."""
    integrity.run("catalog", "upgrade", expect=0)
    former, upgraded = find_former(older), read(older)
    with closing(Connection(bytes(older))) as c:
        c.run("DELETE FROM version")
    assert str(former) in integrity.run("catalog", "restore", "--yes", former, expect=0).stdout
    assert former.read_bytes() == older.read_bytes()
    integrity.run("catalog", "upgrade", expect=0)

    assert upgraded == read(older)


def test_refusal_of_a_newer_catalog_names_the_copy_to_go_back_to(integrity: Box) -> None:
    """The one from before the first upgrade that this program does not know, not an older or a later one."""
    catalog = integrity.catalog
    integrity.configure("")
    Catalog.create(bytes(catalog)).close()
    with closing(Connection(bytes(catalog))) as c:
        c.run("UPDATE alembic_version SET version_num = '9999'")
    for name in (f"{SCHEMA_REVISION}-20261101", f"{NEXT}-20261102", f"{NEXT}-20261103", "9999-20261104"):
        Path(f"{catalog}.before-{name}T000000Z").touch()

    with pytest.raises(SchemaMismatch, match=rf"catalog restore \S+\.before-{NEXT}-20261103T000000Z$"):
        Catalog.open(bytes(catalog), writes=True)
