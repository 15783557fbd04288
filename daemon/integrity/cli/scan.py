"""``integrity scan``."""

from __future__ import annotations

import click

from integrity.cli.params import PATH
from integrity.cli.running import do_request, real_path
from integrity.cli.session import Session


@click.command()
@click.argument("paths", nargs=-1, type=PATH, metavar="[PATH]...")
@click.option("--full", is_flag=True, help="Re-read files whose size, times and inode are unchanged, too.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads, whatever kind of disk it is.")
@click.option("--no-wait", is_flag=True, help="Only put it into the queue of the running daemon.")
@click.pass_obj
def scan(session: Session, paths: tuple[bytes, ...], full: bool, jobs: int | None, no_wait: bool) -> int:
    """
    Record new and changed files, notice missing and moved ones.

    A folder never seen before becomes a root and is watched from then on. Without PATH: all roots. What is in question,
    because it rotted, vanished or changed in masses, keeps its old record until you accept it.

    While a daemon serves the catalog the scan is handed to it, with all options, and goes first in its queue; what is
    printed and the exit code are the same.
    """
    from integrity.jobs.options import ScanOptions
    from integrity.model import Job
    from integrity.service.control.requests import JobRequest

    wanted = tuple(real_path(path) for path in paths)
    request = JobRequest(Job.SCAN, wanted, scan=ScanOptions(full=full), jobs=jobs)
    return do_request(session, request, waits=not no_wait)
