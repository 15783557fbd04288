"""``integrity scrub``."""

from __future__ import annotations

import click

from integrity.cli.params import DURATION, PATH, PERCENT, SIZE
from integrity.cli.running import do_request, real_path
from integrity.cli.session import Session


@click.command()
@click.argument("paths", nargs=-1, type=PATH, metavar="[PATH]...")
@click.option("--all", "everything", is_flag=True, help="Everything that is recorded: the default.")
@click.option("--due", is_flag=True, help="Only what the promise (verify_every) asks for now.")
@click.option("--new", is_flag=True, help="Only what was recorded and never re-read.")
@click.option("--older-than", "older_than_s", type=DURATION, help="Only what was last verified longer ago, as in 10d.")
@click.option("--percent", type=PERCENT, metavar="P", help="At most P % of the bytes.")
@click.option("--time-limit", "time_limit_s", type=DURATION, help="Stop after this time, as in 5h.")
@click.option("--byte-limit", type=SIZE, help="Stop after this much, as in 500G.")
@click.option("--rate", type=SIZE, help="Read at most this much a second, as in 50M.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads, whatever kind of disk it is.")
@click.option("--deep", is_flag=True, help="Compute MD5 as well as XXH3.")
@click.option(
    "--no-scan", is_flag=True, help="Record no new files, and look for no missing ones: if any is, exit with 3."
)
@click.option("--no-wait", is_flag=True, help="Only put it into the queue of the running daemon.")
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
    Re-read what is recorded from the disk, and judge it.

    Without PATH: all roots. What is overdue comes first, so that a limited scrub goes on where the last one stopped.
    Stopping at a limit is no error. Files that are not recorded yet are recorded first.

    While a daemon serves the catalog the scrub is handed to it, with all options, and goes first in its queue; what is
    printed and the exit code are the same.
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
