"""``integrity findings``, ``ack`` and ``mute``."""

from __future__ import annotations

import time

import click

from integrity.cli.exitcodes import ExitCode, code_for_kinds
from integrity.cli.params import FUTURE, PAST
from integrity.cli.session import Session
from integrity.model import Finding, FindingState
from integrity.views.objects import finding_object

_IDS = click.argument("ids", nargs=-1, required=True, type=click.IntRange(min=1), metavar="ID...")


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include resolved findings.")
@click.option("--since", type=PAST, help="Only findings that changed since a date, or within a duration such as 2w.")
@click.pass_obj
def findings(session: Session, everything: bool, since: int | None) -> int:
    """
    List open findings, one per line.

    A file with several names is listed once. Acknowledged and muted findings are still open: only the reminders
    stop.
    """
    from integrity.views.text import count, lines_of_findings

    with session.open_catalog(writes=False, parities=()) as catalog:
        from integrity.catalog.findings import as_incidents, find_findings

        with catalog.read() as connection:
            found = as_incidents(connection, find_findings(connection, include_resolved=everything, since=since))
    output = session.output
    for finding, line in zip(found, lines_of_findings(found), strict=True):
        output.tell(line)
        output.give("finding", finding_object(finding))
    unresolved = [finding for finding in found if finding.state is not FindingState.RESOLVED]
    if unresolved:
        output.tell(f"{count(len(unresolved), 'finding')} open; what to do about one:  integrity explain FILE")
        if output.verbosity:
            output.tell(f"more about this:  {_read_on(unresolved)}")
    else:
        output.say("no open findings")
    return code_for_kinds(finding.kind for finding in unresolved)


@click.command()
@_IDS
@click.pass_obj
def ack(session: Session, ids: tuple[int, ...]) -> int:
    """
    Stop reminders of findings until they change.

    They stay open.
    """
    with session.open_catalog(writes=True, parities=()) as catalog:
        from integrity.jobs.admin.findings import acknowledge_findings

        return _tell(session, acknowledge_findings(catalog, ids, now=int(time.time())))


@click.command()
@_IDS
@click.option("--until", required=True, type=FUTURE, help="A date such as 2026-12-24, or a duration such as 10d.")
@click.pass_obj
def mute(session: Session, ids: tuple[int, ...], until: int) -> int:
    """
    Stop reminders of findings until a date.

    They stay open. A finding that changes before the date is reported.
    """
    now = int(time.time())
    if until <= now:
        raise click.BadParameter("is in the past", param_hint="--until")
    with session.open_catalog(writes=True, parities=()) as catalog:
        from integrity.jobs.admin.findings import mute_findings

        return _tell(session, mute_findings(catalog, ids, until, now=now))


def _read_on(found: list[Finding]) -> str:
    from integrity.alerts.wording import read_on

    return read_on(finding.kind for finding in found)


def _tell(session: Session, changed: list[Finding]) -> ExitCode:
    """Show findings as they are now."""
    from integrity.views.text import lines_of_findings

    for finding, line in zip(changed, lines_of_findings(changed), strict=True):
        session.output.say(line)
        session.output.give("finding", finding_object(finding))
    return ExitCode.OK
