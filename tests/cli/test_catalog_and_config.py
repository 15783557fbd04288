"""``catalog`` and ``config`` as their users see them."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from support.catalogs import take_back
from support.cli import Box
from support.stored import tamper


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


def test_damaged_row_is_found_named_and_mended(integrity: Box, data: Path) -> None:
    """The check is 4 and names the file; the backup brings the row back."""
    integrity.run("catalog", "backup", expect=0)
    tamper(integrity, "UPDATE file SET md5 = zeroblob(16) WHERE name = CAST('file1' AS BLOB)")
    bad = integrity.run("catalog", "check", expect=4)
    restored = integrity.run("catalog", "restore", "--yes", expect=0)

    assert f"{data}/file1: its row is damaged" in bad.stdout
    assert "integrity catalog restore" in bad.stdout
    assert "the former catalog is kept as" in restored.stdout
    integrity.run("catalog", "check", expect=0)


def test_lost_row_is_found_and_resealing_takes_it_as_it_is(integrity: Box, data: Path) -> None:
    """Only a person's word makes a catalog with lost rows right."""
    tamper(integrity, "DELETE FROM file WHERE name = CAST('file1' AS BLOB)")
    bad = integrity.run("catalog", "check", expect=4)
    integrity.run("catalog", "reseal", expect=2)
    integrity.run("catalog", "reseal", "--yes", expect=0)

    assert "holds 2 files, should hold 3" in bad.stdout
    integrity.run("catalog", "check", expect=0)
    assert 1 == integrity.summary("scan", data, expect=0)["files_new"]


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
        take_back(bytes(integrity.catalog), "0008")
        former = set(integrity.home.glob("catalog.db.before-*"))
        said = integrity.run(*words, expect=0).stdout
        (made,) = set(integrity.home.glob("catalog.db.before-*")) - former
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


def test_catalog_of_a_seal_key_is_not_opened_without_it(integrity: Box, data: Path, tmp_path: Path) -> None:
    """Every row would look damaged; resealing changes the key."""
    (tmp_path / "key").write_text("a long secret")
    integrity.configure(f'seal_key_file = "{tmp_path}/key"\n')
    integrity.run("status", expect=4)
    integrity.run("catalog", "reseal", "--yes", expect=0)
    integrity.run("scrub", expect=0)
    integrity.configure("")
    integrity.run("status", expect=4)


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
