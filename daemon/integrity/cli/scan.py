"""``integrity scan``."""

from __future__ import annotations

import click

from integrity.cli.params import PATH
from integrity.cli.running import real_path, run_job
from integrity.cli.session import Session


@click.command()
@click.argument("paths", nargs=-1, type=PATH, metavar="[PATH]...")
@click.option("--full", is_flag=True, help="Re-read files whose size, times and inode are unchanged, too.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads, whatever kind of disk it is.")
@click.pass_obj
def scan(session: Session, paths: tuple[bytes, ...], full: bool, jobs: int | None) -> int:
    """
    Record new and changed files, notice missing and moved ones.

    A folder never seen before becomes a root and is watched from then on. Without PATH: all roots. What is in question,
    because it rotted, vanished or changed in masses, keeps its old record until you accept it.
    """
    from integrity.jobs.runner import scan as run_scan
    from integrity.jobs.scan import ScanOptions

    wanted = [real_path(path) for path in paths]
    return run_job(session, wanted, lambda context: run_scan(context, wanted, ScanOptions(full=full)), threads=jobs)
