"""``integrity protect``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.params import PATH, SHARE, examples
from integrity.cli.running import job_context, real_path
from integrity.cli.session import Session

if TYPE_CHECKING:
    from integrity.jobs.parity.protect import ProtectOptions


@click.command(
    epilog=examples(
        ("integrity protect /srv/photos --folder /mnt/other/parity --plan", "how much space and time it takes"),
        ("integrity protect /srv/photos --folder /mnt/other/parity", "protect all recorded files of a folder"),
    )
)
@click.argument("paths", nargs=-1, required=True, type=PATH, metavar="PATH...")
@click.option(
    "--parity", "percent", type=SHARE, help="How much parity, such as 10%.  [default: as configured, as before, or 5%]"
)
@click.option("--folder", type=PATH, metavar="DIR", help="Where it goes.  [default: parity_folder, or as before]")
@click.option("--plan", "plans", is_flag=True, help="Only tell what it takes; write nothing.")
@click.pass_obj
def protect(
    session: Session, paths: tuple[bytes, ...], percent: float | None, folder: bytes | None, plans: bool
) -> int:
    """
    Add parity to files, which heals damage without a backup.

    Parity is data from which a part of your files can be restored, 5 % of them unless told otherwise, in PAR2 files
    that other programs can use, too. Only files that are recorded are protected, each as it was recorded. Parity on
    another disk is better; on the same disk it helps against damaged sectors, not against a dead disk. To heal files:
    `repair`. The service adds and renews parity by itself where the configuration says `parity`.

    Exits with 0 if everything is protected, 3 if something could not be.
    """
    from integrity.jobs.parity.protect import ProtectOptions

    wanted = tuple(real_path(path) for path in paths)
    options = ProtectOptions(percent or 0.0, b"" if folder is None else os.path.abspath(folder))
    return _plan(session, wanted, options) if plans else _protect(session, wanted, options)


def _plan(session: Session, paths: tuple[bytes, ...], options: ProtectOptions) -> int:
    from integrity.jobs.parity.estimate import estimate
    from integrity.views.repair import describe_estimate, estimate_object

    with session.open_catalog(writes=False) as catalog:
        for one in estimate(catalog, session.config, paths, options):
            session.output.give("parity_plan", estimate_object(one))
            for line in describe_estimate(one):
                session.output.tell(line)
    return ExitCode.OK


def _protect(session: Session, paths: tuple[bytes, ...], options: ProtectOptions) -> int:
    from integrity.cli.daemon_client import borrowing
    from integrity.jobs.parity.protect import ProtectReport
    from integrity.jobs.runner import protect
    from integrity.model import Outcome
    from integrity.views.repair import describe_report, report_object

    made = ProtectReport()
    with job_context(session, session.open_catalog(writes=True)) as (context, report):
        with borrowing(session, list(paths), context):
            summary = protect(context, paths, options, made)
        report.show()
    session.output.give("parity", report_object(made))
    for line in describe_report(made):
        session.output.tell(line)
    if summary.outcome is Outcome.INTERRUPTED:
        return session.fail(
            f"interrupted; what was made counts; to go on: {options.spell_command(*paths)}", ExitCode.INTERRUPTED
        )
    return ExitCode.INCOMPLETE if made.left or summary.is_incomplete else ExitCode.OK
