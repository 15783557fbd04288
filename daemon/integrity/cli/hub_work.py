"""``integrity hub work``: read shared trees for a hub, in the foreground."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.params import SIZE
from integrity.errors import ConfigError

if TYPE_CHECKING:
    from integrity.cli.session import Session


@click.command(
    epilog=examples(
        ("integrity hub work", "read until nothing is due"),
        ("integrity hub work --keep-on --rate 50M", "go on as work becomes due, at 50 MiB/s at most"),
    )
)
@click.option("--keep-on", is_flag=True, help="Go on when nothing is due, until interrupted.")
@click.option("--rate", type=SIZE, help="Read at most this much per second, such as 50M.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads, whatever the type of disk.")
@click.pass_obj
def work(session: Session, keep_on: bool, rate: int | None, jobs: int | None) -> int:
    """
    Read shared trees for a hub.

    Works on each [[root]] that has `shared` set: asks the hub for parts of the tree that are due, scans and reads them,
    and brings the records back. The service does the same while the windows of [schedule] scrub are open. Interrupted,
    it brings back what it has done.
    """
    from integrity.cli.signals import stop_on_signals
    from integrity.files.span import UNLIMITED
    from integrity.jobs.pace.throttle import Throttle
    from integrity.jobs.shards.worker import WorkerSettings, find_work_folder, make_worker
    from integrity.views.objects import finding_object

    roots = session.config.shared_roots
    if not roots:
        raise ConfigError("no shared tree is configured: set `shared` in its [[root]]")
    with stop_on_signals() as stop:
        pace = Throttle(rate, stop) if rate else UNLIMITED
        settings = WorkerSettings(find_work_folder(session.config), jobs=jobs, pace=pace)
        workers = [make_worker(session.config, root, settings, finding_object, stop) for root in roots]
        while True:
            wait_s = min([worker.run() for worker in workers])
            if not keep_on or stop.wait(wait_s):
                break
    return ExitCode.INTERRUPTED if stop.is_set() else ExitCode.OK
