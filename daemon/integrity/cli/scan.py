"""``integrity scan``."""

from __future__ import annotations

import click

from integrity.cli.help import examples
from integrity.cli.params import PATH
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
