"""``integrity catalog`` and its commands; ``export`` and ``import`` have their own modules."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.manifests import export_command, import_command
from integrity.cli.output import confirm
from integrity.cli.params import PATH
from integrity.cli.running import real_path
from integrity.cli.session import Session
from integrity.errors import printable, show_path
from integrity.paths import absolute, path_fields

if TYPE_CHECKING:
    from integrity.catalog.maintenance import CheckReport

_EXAMPLES = 10


@click.group(
    epilog=examples(
        ("integrity catalog stats", "its size, and what takes the space"),
        ("integrity catalog backup /mnt/usb", "a copy on another disk"),
        ("integrity catalog check", "is all of it intact?"),
    )
)
def catalog() -> None:
    """Check, back up, restore, or maintain the catalog."""


catalog.add_command(export_command)
catalog.add_command(import_command)


@catalog.command(
    epilog=examples(
        ("integrity catalog check", "every page, every index, every count"),
        ("integrity catalog check --quick", "the pages and the structure of the file only"),
    )
)
@click.option("--quick", is_flag=True, help="Check pages and structure only, not every index and count.")
@click.pass_obj
def check(session: Session, quick: bool) -> int:
    """
    Check the whole catalog: every page, its structure, every index, every count.

    Exits with 4 if any of it is damaged.
    """
    with session.open_catalog(writes=False) as opened:
        from integrity.catalog.maintenance import check as check_catalog

        report = check_catalog(opened, deep=not quick)
    output = session.output
    code = ExitCode.OK if report.is_right else ExitCode.CATALOG
    for line in _describe_check(report):
        output.tell(line)
    if report.is_right:
        output.say(f"{show_path(session.catalog_path)}: all is well")
    else:
        output.tell(f"{output.style('The catalog is damaged', 'red')}; the files themselves are not known to be.")
        output.tell(f"    - bring back its newest backup:  {program.command('catalog restore')}")
        output.tell(f"    - or keep what can be read of it:  {program.command('catalog salvage')}")
    output.give("catalog_check", _check_fields(session.catalog_path, report))
    return code


@catalog.command(
    epilog=examples(
        ("integrity catalog backup", "into the configured folder, or beside the catalog"),
        ("integrity catalog backup /mnt/usb", "onto another disk"),
    )
)
@click.argument("folder", type=PATH, required=False)
@click.pass_obj
def backup(session: Session, folder: bytes | None) -> int:
    """Copy the catalog into FOLDER (default: as configured, or beside the catalog), and remove the oldest copies."""
    with session.open_catalog(writes=True) as opened:
        from integrity.catalog.maintenance import back_up

        place = session.backup_folder if folder is None else real_path(folder)
        made = back_up(opened, place, keep=session.config.catalog_backup.keep, now=int(time.time()))
    session.output.say(f"backed up to {show_path(made)}")
    session.output.give("catalog_backup", path_fields("path", made))
    return ExitCode.OK


@catalog.command(
    epilog=examples(
        ("integrity catalog restore", "the newest intact backup"),
        ("integrity catalog restore /mnt/usb", "the newest one in a folder"),
    )
)
@click.argument("source", type=PATH, required=False, metavar="[BACKUP]")
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.pass_obj
def restore(session: Session, source: bytes | None, yes: bool) -> int:
    """
    Replace the catalog with a backup.

    BACKUP is a file, or a folder whose newest intact backup is used. The replaced catalog is kept.
    """
    path = session.catalog_path
    confirm(f"Replace the catalog {show_path(path)} by a backup?", is_yes=yes)
    from integrity.catalog.maintenance import restore as restore_catalog

    place = session.backup_folder if source is None else real_path(source)
    taken, aside = restore_catalog(path, place)
    session.output.say(f"restored from {show_path(taken)}; what was recorded later is recorded anew by the next scan")
    if aside is not None:
        session.output.say(f"the former catalog is kept as {show_path(aside)}")
    kept = {} if aside is None else path_fields("former", aside)
    session.output.give("catalog_restore", path_fields("path", path) | path_fields("backup", taken) | kept)
    return ExitCode.OK


@catalog.command(
    epilog=examples(
        ("integrity catalog salvage", "where no backup is new enough"),
        ("integrity catalog check", "then check the result"),
    )
)
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@click.pass_obj
def salvage(session: Session, yes: bool) -> int:
    """
    Make a new catalog of what can be read of a damaged one, which is kept.

    What is lost is named; the next scan records these files again. Damage that they have by then can't be seen any
    more: where a backup of the catalog is new enough, bring that back instead.
    """
    path = session.catalog_path
    confirm(f"Make a new catalog of what can be read of {show_path(path)}?", is_yes=yes)
    from integrity.catalog.rebuild import salvage as salvage_catalog
    from integrity.words.text import count

    done, output = salvage_catalog(path), session.output
    output.say(f"{count(done.kept, 'row')} could be read; the damaged catalog is kept as {show_path(done.former)}")
    for table, number in done.lost.items():
        output.tell(
            f"lost of {table}: {'some rows, nobody knows how many' if number is None else count(number, 'row')}"
        )
    for root, name in done.files:
        output.tell(f"to be recorded again, and earlier damage can't be seen: {show_path(absolute(root, name))}")
    lost_files = [path_fields("path", absolute(root, name)) for root, name in done.files]
    fields = path_fields("path", path) | path_fields("former", done.former)
    output.give("catalog_salvage", fields | {"kept": done.kept, "lost": done.lost, "files": lost_files})
    return ExitCode.INCOMPLETE if done.lost else ExitCode.OK


@catalog.command(
    epilog=examples(
        ("integrity catalog upgrade", "after a new version was installed"),
        ("integrity catalog check", "then check the result"),
    )
)
@click.pass_obj
def upgrade(session: Session) -> int:
    """Upgrade a catalog of an older version; the former file is kept beside it."""
    with session.open_catalog(writes=True):
        pass  # opening it for writing is what upgrades it
    session.output.say(f"{show_path(session.catalog_path)}: is up to date")
    session.output.give("catalog_upgrade", path_fields("path", session.catalog_path))
    return ExitCode.OK


@catalog.command(
    epilog=examples(
        ("integrity catalog stats", "files, size, growth, last backup"),
        ("integrity catalog stats -v", "and the tables inside"),
        ("integrity catalog stats --json", "for scripts"),
    )
)
@click.pass_obj
def stats(session: Session) -> int:
    """
    Show how many files the catalog knows, what takes its space, how it grows, and its last backup.

    With -v also the tables inside.
    """
    from integrity.views.catalog import describe_stats, describe_tables, stats_object

    path, now = session.catalog_path, int(time.time())
    with session.open_catalog(writes=False) as opened:
        from integrity.catalog.maintenance import list_backups
        from integrity.catalog.maintenance import stats as find_stats

        found, backups = find_stats(opened), list_backups(path, session.backup_folder)
    for line in describe_stats(path, found, backups, now):
        session.output.tell(line)
    for line in describe_tables(found) if session.output.verbosity else ():
        session.output.tell(line)
    session.output.give("catalog_stats", stats_object(path, found, backups, now))
    return ExitCode.OK


def _describe_check(report: CheckReport) -> Iterator[str]:
    """Say what is wrong, one thing a line."""
    for complaint in report.complaints:
        yield f"structure: {printable(complaint)}"
    for count in report.counts:
        if count.expected != count.actual:
            yield f"{show_path(count.root)}: holds {count.actual:,} files, should hold {count.expected:,}"
    for file_id in report.misfrozen_files[:_EXAMPLES]:
        yield f"file {file_id}: its record is held by a finding that is not there, or not held by one that is"
    for file_id in report.incomplete_files[:_EXAMPLES]:
        yield f"file {file_id}: some of its block digests are lost"


def _check_fields(path: bytes, report: CheckReport) -> dict[str, object]:
    return path_fields("path", path) | {
        "is_right": report.is_right,
        "complaints": list(report.complaints),
        "roots": [
            path_fields("path", count.root) | {"expected_rows": count.expected, "actual_rows": count.actual}
            for count in report.counts
        ],
        "misfrozen_files": len(report.misfrozen_files),
        "incomplete_files": len(report.incomplete_files),
        "orphan_runs": report.orphan_runs,
    }
