"""``catalog`` and ``config`` as their users see them."""

from __future__ import annotations

import os
import random
import re
import time
from pathlib import Path

import pytest

from support.cli import Box
from support.flips import damage_table, find_lost_writes, find_pages, flip_bit, put_back
from support.older import put_older
from support.service import Service


@pytest.fixture
def data(integrity: Box, tmp_path: Path) -> Path:
    """A scanned folder with three files."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(3):
        (folder / f"file{number}").write_text(f"content {number}")
    integrity.run("scan", folder, expect=0)
    return folder


def test_sound_catalog_passes_its_check(integrity: Box, data: Path) -> None:
    """Exit 0, and with -q not a word."""
    assert "all is well" in integrity.run("catalog", "check", expect=0).stdout
    assert "" == integrity.run("-q", "catalog", "check", "--quick", expect=0).stdout


def test_damaged_page_is_found_and_mended_by_a_backup(integrity: Box, data: Path) -> None:
    """The check is 4, and so is a command that reads the page; the backup brings all back."""
    integrity.run("catalog", "backup", expect=0)
    damage_table(integrity.catalog, "file")
    bad, met = integrity.run("catalog", "check", expect=4), integrity.run("scan", data, expect=4)
    restored = integrity.run("catalog", "restore", "--yes", expect=0)

    assert "structure: the checksum of a page is wrong" in bad.stdout
    for said in (bad.stdout, met.stderr):
        assert "integrity catalog restore" in said
        assert "integrity catalog salvage" in said
    assert "the former catalog is kept as" in restored.stdout
    integrity.run("catalog", "check", expect=0)


def test_salvage_names_what_is_lost(integrity: Box, data: Path) -> None:
    """Nothing is done without a yes; the damaged catalog is kept, and what was lost is recorded anew."""
    integrity.run("scrub", data, expect=0)
    damage_table(integrity.catalog, "file")
    damaged, damaged_box = integrity.catalog.read_bytes(), integrity.copy_to(integrity.home.parent / "other")
    assert "--yes" in integrity.run("catalog", "salvage", expect=2).stderr
    assert damaged == integrity.catalog.read_bytes()
    done = integrity.run("catalog", "salvage", "--yes", expect=3)
    (told,) = damaged_box.json("catalog", "salvage", "--yes", expect=3)

    (former,) = integrity.home.glob("catalog.db.replaced-*Z")
    lines = done.stdout.splitlines()
    assert f"could be read; the damaged catalog is kept as {former}" in lines[0]
    assert "lost of file: 3 rows" in lines
    assert {f"to be recorded again, and earlier damage can't be seen: {data}/file{number}" for number in range(3)} <= {
        *lines
    }
    assert damaged == former.read_bytes()
    assert ("catalog_salvage", {"file": 3}) == (told["type"], told["lost"])
    assert [str(data / f"file{number}") for number in range(3)] == [one["path"] for one in told["files"]]
    assert isinstance(told["kept"], int)
    assert lines[0].startswith(f"{told['kept']} rows could be read")
    for box in (integrity, damaged_box):
        box.run("catalog", "check", expect=0)
    assert 3 == integrity.summary("scan", data, expect=0)["files_new"]
    integrity.run("findings", expect=0)


def test_salvage_of_what_is_not_damaged_or_not_of_this_version(integrity: Box, data: Path) -> None:
    """A sound catalog stays; one of another version, or without its schema, is left alone, and the message says why."""
    assert "is not damaged: nothing was done" in integrity.run("catalog", "salvage", "--yes", expect=4).stderr
    content = integrity.catalog.read_bytes()

    def is_told(says: str) -> None:
        before = integrity.catalog.read_bytes()
        told = integrity.run("catalog", "salvage", "--yes", expect=4).stderr
        assert says in told
        assert "integrity catalog" in told
        assert before == integrity.catalog.read_bytes()

    flip_bit(integrity.catalog, random.Random(1), 110, 4096)
    is_told("its schema can't be read")
    for garbage in (content[:100] + bytes(len(content) - 100), bytes(len(content)), b""):
        put_back(integrity.catalog, garbage)
        is_told("its schema can't be read")
    integrity.catalog.unlink()
    put_older(integrity.catalog, "0011")
    is_told("written by an older integrity (schema 0011)")
    integrity.catalog.unlink()
    assert "there is no catalog" in integrity.run("catalog", "salvage", "--yes", expect=4).stderr
    assert not list(integrity.home.glob("*.restoring*"))


def test_salvage_after_a_lost_write(integrity: Box, data: Path) -> None:
    """What is missing can be neither counted nor named, but is said to be missing; what is there is kept."""
    find_pages(integrity.catalog)
    before = integrity.catalog.read_bytes()
    integrity.run("scrub", data, expect=0)
    _ = next(find_lost_writes(integrity.catalog, before, "file"))
    assert "the table file is not as it was last written" in integrity.run("catalog", "check", expect=4).stdout
    assert "the disk has lost a write" in integrity.run("catalog", "backup", expect=4).stderr
    salvaged = integrity.run("catalog", "salvage", "--yes", expect=3)

    assert "lost of file: some rows, nobody knows how many" in salvaged.stdout
    integrity.run("catalog", "check", expect=0)
    assert 3 == integrity.summary("scan", data, expect=0)["files_not_due"]


def test_salvage_while_the_service_runs(integrity: Box, data: Path) -> None:
    """The service has to be stopped first; it goes on with the catalog that it has."""
    integrity.configure(f'[[root]]\npath = "{data}"\n')
    with Service(integrity) as service:
        service.wait_begun()
        damage_table(integrity.catalog, "version")
        before = integrity.catalog.stat().st_ino
        refused = integrity.run("catalog", "salvage", "--yes", expect=4).stderr
        service.stop()

    assert "is in use (by process" in refused
    assert "stop that first" in refused
    assert before == integrity.catalog.stat().st_ino
    integrity.run("catalog", "salvage", "--yes", expect=0)


def test_restore_asks(integrity: Box, data: Path) -> None:
    """Without a terminal and --yes the catalog stays."""
    integrity.run("catalog", "backup", expect=0)
    before = integrity.catalog.stat().st_ino
    integrity.run("catalog", "restore", expect=2)

    assert before == integrity.catalog.stat().st_ino


def test_backup_goes_where_it_is_told(integrity: Box, data: Path, tmp_path: Path) -> None:
    """To the folder on the command line, else to the configured one."""
    (told,) = integrity.json("catalog", "backup", tmp_path / "one", expect=0)
    integrity.configure(f'[catalog_backup]\nfolder = "{tmp_path}/two"\n')
    (configured,) = integrity.json("catalog", "backup", expect=0)

    assert tmp_path / "one" == Path(str(told["path"])).parent
    assert tmp_path / "two" == Path(str(configured["path"])).parent
    integrity.run("catalog", "restore", tmp_path / "one", "--yes", expect=0)
    integrity.run("catalog", "restore", tmp_path / "none", "--yes", expect=4)


def test_upgrade_of_a_catalog_that_is_up_to_date_does_nothing(integrity: Box, data: Path) -> None:
    """It may be called at any time."""
    assert "is up to date" in integrity.run("catalog", "upgrade", expect=0).stdout


def test_upgrade_says_where_the_former_catalog_is(integrity: Box, data: Path) -> None:
    """Whichever command upgrades: who goes back to the older version needs it."""
    for words in (("catalog", "upgrade"), ("scan", data)):
        integrity.catalog.unlink(missing_ok=True)
        put_older(integrity.catalog, "0010")
        former = set(integrity.home.glob("catalog.db.before-*Z"))
        said = integrity.run(*words, expect=0).stdout
        (made,) = set(integrity.home.glob("catalog.db.before-*Z")) - former
        assert f"{integrity.catalog}: was upgraded for this version; as it was before: {made}" in said
        made.unlink()


def test_stats_answer_what_an_owner_asks(integrity: Box, data: Path) -> None:
    """How many files, how large, what takes the space, how it grows, when it was backed up; tables with -v only."""
    before = integrity.run("catalog", "stats", expect=0).stdout
    integrity.run("catalog", "backup", expect=0)
    backup, *newer = sorted(integrity.catalog.parent.glob("catalog-*.db"))
    two_days_ago = time.time() - 2 * 86_400
    os.truncate(backup, backup.stat().st_size // 2)
    os.utime(backup, (two_days_ago, two_days_ago))
    after = integrity.run("catalog", "stats", expect=0).stdout
    (stats,) = integrity.json("catalog", "stats", expect=0)

    assert "records    3 files" in before
    assert "names, times, and checksums of files" in before
    assert "not known yet" in before
    assert re.search(r"growth     \d.* a day, since the backup of", after)
    assert str(newer[-1] if newer else backup) in after
    assert (3, 1) == (stats["files"], stats["roots"])
    rows = {table["name"]: table["rows"] for table in stats["tables"]}  # type: ignore[attr-defined]
    assert (3, 1) == (rows["file"], rows["root"])
    assert f"{integrity.catalog}" in after
    assert "schema" not in after
    assert "schema" in integrity.run("catalog", "stats", "-v", expect=0).stdout


def test_backup_in_another_folder_is_not_called_the_last_one_here(integrity: Box, data: Path, tmp_path: Path) -> None:
    """The time is never put beside the path of another backup."""
    integrity.run("catalog", "backup", expect=0)
    for number, here in enumerate(sorted(integrity.catalog.parent.glob("catalog-*.db"))):
        os.rename(here, here.with_name(f"catalog-2020010{number}T000000Z.db"))
    (line,) = [one for one in integrity.run("catalog", "stats").stdout.splitlines() if one.startswith("  backup")]

    assert "ago, but it is not in the configured folder (any more); the newest there: " in line


def test_config_check_tells_all_errors_at_once(integrity: Box) -> None:
    """Three errors are three lines with file, line and key."""
    config = integrity.configure('qq = 1\n[defaults]\nsettle = 5\nblock_size = "3MiB"\n')
    done = integrity.run("config", "check", expect=2)
    lines = done.stderr.splitlines()

    assert [f"integrity: {config}:{number}: " for number in (1, 3, 4)] == [
        line[: len(f"integrity: {config}:1: ")] for line in lines
    ]
    assert 'must be a power of two from 64KiB to 64MiB, not "3MiB"' in lines[2]


def test_config_check_tries_patterns(integrity: Box) -> None:
    """What no pattern can mean is told before a scan trips over it."""
    integrity.configure('[defaults]\nexclude = ["[z-a]"]\n')

    assert "exclude pattern" in integrity.run("config", "check", expect=2).stderr


def test_config_check_looks_what_copies_are_of(integrity: Box, data: Path) -> None:
    """A root that a command made is one, a folder in it, too; what was never scanned is not."""
    copy = '[[copy]]\nname = "{}"\nof = "{}"\nurl = "/mnt/x"\n'
    integrity.configure(copy.format("one", data) + copy.format("two", data / "sub"))
    integrity.run("config", "check", expect=0)
    integrity.configure(copy.format("one", data) + copy.format("two", "/nowhere"))
    error = integrity.run("config", "check", expect=2).stderr

    assert '"two" is a copy of /nowhere, which lies in no [[root]]' in error
    assert '"one"' not in error
    integrity.run("--catalog", data.parent / "none.db", "config", "check", expect=2)


def test_config_check_says_that_nobody_will_be_told(integrity: Box) -> None:
    """It is a valid configuration all the same; one with a channel is not warned of."""
    config = integrity.configure("")
    done, (told,) = integrity.run("config", "check", expect=0), integrity.json("config", "check", expect=0)
    integrity.configure('[alerts]\ncommand = ["true"]\n')
    well, (command,) = integrity.run("config", "check", expect=0), integrity.json("config", "check", expect=0)

    assert f"warning: {config}: nobody will be told of damage: no channel is configured; set `to`" in done.stderr
    assert ("", ["command:true"], []) == (well.stderr, command["recipients"], told["recipients"])


def test_wrong_config_stops_every_command_that_uses_it(integrity: Box, tmp_path: Path) -> None:
    """Nothing is done by halves."""
    integrity.configure("qq = 1\n")
    integrity.run("scan", tmp_path, expect=2)

    assert not integrity.catalog.exists()


def test_sample_and_shown_config_can_be_used(integrity: Box, tmp_path: Path) -> None:
    """What is printed is a config that passes the check."""
    sample = integrity.run("config", "sample", expect=0).stdout
    (tmp_path / "sample.toml").write_text(sample)
    integrity.run("--config", tmp_path / "sample.toml", "config", "check", expect=0)
    shown = integrity.run("--config", tmp_path / "sample.toml", "config", "show", "--all", expect=0).stdout
    (tmp_path / "shown.toml").write_text(shown)

    assert shown == integrity.run("--config", tmp_path / "shown.toml", "config", "show", "--all", expect=0).stdout


def test_what_was_chosen_is_shown_and_the_rest_on_request(integrity: Box) -> None:
    """What is printed means the same as the file; of what has its default, one line says how to see it."""
    chosen = (
        '[defaults]\nverify_every = "45d"\n\n[[root]]\npath = "/srv/a"\npolicy = "archive"\n\n'
        '[[copy]]\nname = "b"\nof = "/srv/a"\nurl = "/mnt/b"\n\n[mail]\nto = ["me@example.org"]\n'
    )
    integrity.configure(f'{chosen}port = 25\n[alerts]\napprise = ["ntfy://s3cret"]\n')
    shown = integrity.run("config", "show", expect=0).stdout
    everything = integrity.json("config", "show", expect=0)

    end = (
        '\n[alerts]\napprise = ["ntfy://(hidden)"]\n\n# What is not here has its default: integrity config show --all\n'
    )
    assert 'catalog = "' not in shown
    assert chosen + end == shown
    assert 'shard_visit = "30m"' in str(everything[0]["toml"])
