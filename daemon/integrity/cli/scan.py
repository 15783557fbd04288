"""``integrity scan`` and ``integrity scrub``."""

from __future__ import annotations

import click

from integrity.cli.params import DURATION, PATH, PERCENT, SIZE, examples
from integrity.cli.running import do_request, real_path
from integrity.cli.session import Session


@click.command(
    epilog=examples(
        ("integrity scan /srv/photos", "record a folder, or what is new in it"),
        ("integrity scan", "the same for all watched folders"),
        ("integrity scan --full /srv/photos", "re-read unchanged files, too"),
    )
)
@click.argument("paths", nargs=-1, type=PATH, metavar="[PATH]...")
@click.option("--full", is_flag=True, help="Also re-read files whose size, times, and inode are unchanged.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads, whatever the type of disk.")
@click.option("--no-wait", is_flag=True, help="Only queue the job in the running daemon.")
@click.pass_obj
def scan(session: Session, paths: tuple[bytes, ...], full: bool, jobs: int | None, no_wait: bool) -> int:
    """
    Record new and changed files, and report moved and missing ones.

    A folder that was never scanned before becomes a watched folder (a root). Without PATH: all watched folders. Files
    that were damaged, went missing, or changed in unusual numbers keep their old record until you accept the change.

    If a daemon serves the catalog, it runs the scan with all options, ahead of its own work; output and exit code
    are the same.
    """
    from integrity.jobs.options import ScanOptions
    from integrity.model import Job
    from integrity.service.control.requests import JobRequest

    wanted = tuple(real_path(path) for path in paths)
    request = JobRequest(Job.SCAN, wanted, scan=ScanOptions(full=full), jobs=jobs)
    return do_request(session, request, waits=not no_wait)


@click.command(
    epilog=examples(
        ("integrity scrub /srv/photos", "verify all files of a folder"),
        ("integrity scrub --due --time-limit 5h", "every night: what is due, for 5 hours at most"),
        ("integrity scrub --rate 50M /srv/photos", "leave the disk to others"),
    )
)
@click.argument("paths", nargs=-1, type=PATH, metavar="[PATH]...")
@click.option("--all", "everything", is_flag=True, help="All recorded files (the default).")
@click.option("--due", is_flag=True, help="Only files due for verification (see verify_every), or touched since.")
@click.option("--new", is_flag=True, help="Only files that were never verified.")
@click.option("--older-than", "older_than_s", type=DURATION, help="Only files last verified before this, such as 10d.")
@click.option("--percent", type=PERCENT, metavar="P", help="At most P % of the data.")
@click.option("--time-limit", "time_limit_s", type=DURATION, help="Stop after this time, such as 5h.")
@click.option("--byte-limit", type=SIZE, help="Stop after reading this much, such as 500G.")
@click.option("--rate", type=SIZE, help="Read at most this much per second, such as 50M.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads, whatever the type of disk.")
@click.option("--deep", is_flag=True, help="Check MD5 in addition to XXH3.")
@click.option(
    "--no-scan", is_flag=True, help="Don't look for new or missing files; exit with 3 if a recorded file is missing."
)
@click.option("--no-wait", is_flag=True, help="Only queue the job in the running daemon.")
@click.pass_obj
def scrub(
    session: Session,
    paths: tuple[bytes, ...],
    everything: bool,
    due: bool,
    new: bool,
    older_than_s: int | None,
    percent: float | None,
    time_limit_s: int | None,
    byte_limit: int | None,
    rate: int | None,
    jobs: int | None,
    deep: bool,
    no_scan: bool,
    no_wait: bool,
) -> int:
    """
    Re-read recorded files from the disk and check them for damage.

    Without PATH: all watched folders. Overdue files come first, so a limited scrub continues where the last one
    stopped; stopping at a limit is not an error. Files that are not recorded yet are recorded first.

    If a daemon serves the catalog, it runs the scrub with all options, ahead of its own work; output and exit code
    are the same.
    """
    if sum((everything, due, new, older_than_s is not None)) > 1:
        raise click.UsageError("--all, --due, --new and --older-than exclude each other: each says what to read")
    from integrity.jobs.options import ScrubOptions
    from integrity.model import Job
    from integrity.service.control.requests import JobRequest

    options = ScrubOptions(
        due=due,
        new=new,
        older_than_s=older_than_s,
        percent=percent,
        time_limit_s=time_limit_s,
        byte_limit=byte_limit,
        rate=rate,
        deep=deep,
        scan_first=not no_scan,
        scan_missing=not no_scan,
    )
    wanted = tuple(real_path(path) for path in paths)
    return do_request(session, JobRequest(Job.SCRUB, wanted, scrub=options, jobs=jobs), waits=not no_wait)
