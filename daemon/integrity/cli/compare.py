"""``integrity compare``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.params import ALGORITHM, DURATION, PATH, PERCENT, SIZE, examples
from integrity.cli.running import at_files, own_path, real_path, run_job
from integrity.cli.session import Session
from integrity.errors import CopyUnreachable
from integrity.paths import shell_path

if TYPE_CHECKING:
    from integrity.copies.versions import CopyVersion
    from integrity.jobs.context import Context
    from integrity.jobs.options import CompareOptions
    from integrity.jobs.report import Summary


@click.command(
    epilog=examples(
        ("integrity compare /srv/photos --with /mnt/backup/photos", "a backup on another disk"),
        ("integrity compare --with nightly --read", "a [[copy]] of the configuration; read all of it"),
        ("integrity compare --blocks /srv/photos/a.jpg --with nightly", "show how one file differs from its copy"),
    )
)
@click.argument("paths", nargs=-1, type=PATH, metavar="[PATH]...")
@click.option(
    "--with",
    "copy",
    type=PATH,
    required=True,
    metavar="COPY",
    help="The copy: a name from the configuration, a folder, ssh://, s3://, rclone:REMOTE:PATH, or a manifest file.",
)
@click.option("--read", is_flag=True, help="Read all data on both sides, even where the copy stores checksums.")
@click.option(
    "--cached",
    is_flag=True,
    help="Read data that is in memory from there: faster for a folder that was just copied, but no proof of its disk.",
)
@click.option(
    "--read-percent",
    type=PERCENT,
    metavar="P",
    help="Read P % of the data back, starting with what was not read for the longest time.",
)
@click.option(
    "--algorithm", type=ALGORITHM, metavar="NAME", help="Use only this kind of checksum of a manifest, such as blake2b."
)
@click.option("--endpoint", metavar="URL", help="URL of an S3 server other than Amazon's.")
@click.option("--time-limit", "time_limit_s", type=DURATION, help="Stop after this time, such as 5h.")
@click.option("--byte-limit", type=SIZE, help="Stop after reading this much, such as 500G.")
@click.option("--rate", type=SIZE, help="Read at most this much per second, such as 50M.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads, whatever the type of disk.")
@click.option("--no-scan", is_flag=True, help="Don't scan for new and changed files first.")
@click.option(
    "--blocks", is_flag=True, help="Show how the bytes of one file and its copy differ; compare nothing else."
)
@click.option(
    "--version",
    "version",
    metavar="ID|DATE",
    help="Hold this version of a restic:, borg: or snapshots: copy against the record, and record nothing.",
)
@click.option("--all-versions", is_flag=True, help="The same with all versions, the newest first.")
@click.pass_obj
def compare(
    session: Session,
    paths: tuple[bytes, ...],
    copy: bytes,
    read: bool,
    cached: bool,
    read_percent: float | None,
    algorithm: str | None,
    endpoint: str | None,
    time_limit_s: int | None,
    byte_limit: int | None,
    rate: int | None,
    jobs: int | None,
    no_scan: bool,
    blocks: bool,
    version: str | None,
    all_versions: bool,
) -> int:
    """
    Compare your files with a backup and report which side is damaged.

    A COPY that was never compared before is taken as a copy of PATH, as in diff -r PATH COPY. Files in a folder
    are read; other copies are compared by the checksums they store, which shows that the right data was stored
    once. Your own files are read where something speaks against them, and are known by their record otherwise.
    --read reads both sides.

    --blocks shows both sides of the differing bytes of one file. It records nothing, and exits with 0 if the two are
    equal, 1 if they differ, 3 if one of them can't be read.

    --version and --all-versions count what older backups have of the files, and name those with other content under the
    recorded size and time (exit 1), or that can't be read (exit 3). Only --read reads the data.
    """
    others = (cached, read_percent, algorithm, time_limit_s, byte_limit, rate, jobs, no_scan)
    if version is not None or all_versions:
        if any((*others, blocks, endpoint)) or len(paths) > 1 or (version is not None and all_versions):
            raise click.UsageError("--version or --all-versions goes with one PATH, --with and --read only")
        return _compare_versions(session, paths, os.fsdecode(copy), version, reads=read)
    if blocks:
        if any((read, *others)):
            raise click.UsageError("--blocks goes with --with and --endpoint only: it reads one file and its copy")
        if len(paths) != 1:
            raise click.UsageError("--blocks shows one file: name it, as in compare --blocks FILE --with COPY")
        return _show_difference(session, paths[0], os.fsdecode(copy), endpoint)
    if read and read_percent is not None:
        raise click.UsageError("--read and --read-percent exclude each other: each says how much to read")
    from integrity.jobs.options import CompareOptions

    options = CompareOptions(
        os.fsdecode(copy),
        read=read,
        cached=cached,
        read_percent=read_percent,
        endpoint=endpoint,
        algorithm=algorithm,
        time_limit_s=time_limit_s,
        byte_limit=byte_limit,
        rate=rate,
        scan_first=not no_scan,
    )
    wanted = tuple(real_path(path) for path in paths)
    with at_files(session, paths, writes=True) as there:
        opened = there.open_for_job(wanted)
        try:
            return run_job(there, opened, lambda context: _compare(there, context, wanted, options), threads=jobs)
        except CopyUnreachable as error:
            if len(wanted) != 1 or not (os.path.isfile(wanted[0]) and os.path.isfile(copy)):
                raise
            two = f"{shell_path(wanted[0])} {shell_path(copy)}"
            raise CopyUnreachable(f"{error} A COPY is a whole backup; to compare two files: cmp {two}") from error


def _show_difference(session: Session, file: bytes, copy: str, endpoint: str | None) -> int:
    from integrity.cli.console import stop_on_signals
    from integrity.errors import ReadInterrupted
    from integrity.jobs.compare.byte_difference import find_file_difference
    from integrity.views.copies import describe_file_difference, difference_object

    with (
        stop_on_signals() as stop,
        at_files(session, [file], writes=False) as there,
        there.open_catalog(writes=False) as catalog,
    ):
        try:
            found = find_file_difference(catalog, there.config, own_path(file), copy, endpoint, stop=stop)
        except ReadInterrupted:
            return session.fail("interrupted; nothing was changed", ExitCode.INTERRUPTED)
    for line in describe_file_difference(found):
        session.output.tell(line)
    session.output.give("difference", difference_object(found))
    return ExitCode.OK if found.difference.are_equal else ExitCode.PROBLEM


def _compare_versions(session: Session, paths: tuple[bytes, ...], copy: str, chosen: str | None, *, reads: bool) -> int:
    from integrity.cli.console import stop_on_signals
    from integrity.errors import ReadInterrupted
    from integrity.jobs.versions.of_folder import ComparedVersion, compare_versions
    from integrity.views import copies as views
    from integrity.words.text import local_time

    def tell(version: CopyVersion) -> None:
        session.output.note(f"the version of {local_time(version.taken_at)}")

    is_bad = is_unread = False
    with stop_on_signals() as stop, session.open_catalog(writes=False) as catalog:
        path = real_path(paths[0]) if paths else None
        try:
            for one in compare_versions(
                catalog, session.config, copy, path, chosen=chosen, reads=reads, stop=stop, tell=tell
            ):
                if isinstance(one, ComparedVersion):
                    session.output.tell(views.describe_compared_version(one))
                    session.output.give("compared_version", views.compared_version_object(one, copy))
                    continue
                is_bad, is_unread = is_bad or not one.reason, is_unread or bool(one.reason)
                session.output.tell(views.describe_told_file(one))
                session.output.give("version_file", views.told_file_object(one, copy))
        except ReadInterrupted:
            return session.fail("interrupted; nothing was changed", ExitCode.INTERRUPTED)
    return ExitCode.PROBLEM if is_bad else ExitCode.INCOMPLETE if is_unread else ExitCode.OK


def _compare(session: Session, context: Context, paths: tuple[bytes, ...], options: CompareOptions) -> Summary:
    """Compare in this process, which has its user's keys; a service that works on the root makes room meanwhile."""
    from integrity.cli.daemon_client import borrowing
    from integrity.jobs.compare.source import find_source, narrow
    from integrity.jobs.runner import compare as compare_with

    source = find_source(context.catalog, context.config, options.copy, paths, options.endpoint)
    with borrowing(session, narrow(source, paths), context):
        return compare_with(context, paths, options)
