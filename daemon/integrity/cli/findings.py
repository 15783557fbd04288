"""``integrity findings|ack|mute|explain``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode, code_for_kinds
from integrity.cli.params import FINDING_NUMBER, FUTURE, PAST, PATH, examples
from integrity.cli.running import at_files, lead_to_hub, own_path
from integrity.cli.session import Session
from integrity.errors import ConfigError, show_path
from integrity.kinds import GRAVITY
from integrity.model import Finding, FindingKind, FindingState
from integrity.paths import absolute
from integrity.views.explain import describe_story, file_object
from integrity.words.findings import finding_object

_IDS = click.argument("ids", nargs=-1, required=True, type=FINDING_NUMBER, metavar="ID...")


@click.command(
    epilog=examples(
        ("integrity findings", "all that is open"),
        ("integrity findings --kind rot --path /srv/photos", "damaged files in one folder"),
        ("integrity findings --all --since yesterday", "what was found or resolved since yesterday"),
    )
)
@click.option("--all", "everything", is_flag=True, help="Include resolved findings.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice([kind.value for kind in FindingKind]), metavar="KIND",
    help="Only findings of this kind, such as rot, missing, or copy_differs; may be repeated.",
)  # fmt: skip
@click.option("--path", "place", type=PATH, metavar="PATH", help="Only findings about this file, or in this folder.")
@click.option(
    "--since", type=PAST,
    help="Only findings that changed since a date, since yesterday or today, or within a duration such as 2w.",
)  # fmt: skip
@click.option(
    "--sort", "order", type=click.Choice(["number", "gravity", "path", "time"]), default="number", show_default=True,
    help="What to sort by. By gravity, the worst come last; by time, those that changed last.",
)  # fmt: skip
@click.pass_obj
def findings(
    session: Session, everything: bool, kinds: tuple[str, ...], place: bytes | None, since: int | None, order: str
) -> int:
    """
    List open findings, one per line.

    Many of one kind in one folder or copy share a line; with -v, or a choice of them, each has its own. A file with
    several names is listed once. Acknowledged and muted findings are still open: only the reminders
    stop.
    """
    from integrity.words.findings import gather, list_lines, read_on
    from integrity.words.text import count

    wanted = None if place is None else own_path(place)
    lead_to_hub(session, [] if wanted is None else [wanted])
    with session.open_catalog(writes=False) as catalog:
        from integrity.jobs.admin.findings import list_findings

        found = list_findings(
            catalog, kinds=frozenset(map(FindingKind, kinds)), path=wanted, include_resolved=everything, since=since
        )
    found.sort(key=_ORDERS[order])
    output = session.output
    is_chosen = bool(everything or kinds or place or since or output.verbosity)
    shown = [(one,) for one in found] if is_chosen else list(gather(found))
    for line in list_lines(shown):
        output.tell(line)
    for finding in found:
        output.give("finding", finding_object(finding))
    unresolved = [finding for finding in found if finding.state is not FindingState.RESOLVED]
    if unresolved:
        explain = program.command("explain FILE")
        output.tell(f"{count(len(unresolved), 'finding')} open; what to do about one:  {explain}")
        if len(shown) < len(found):
            output.tell(f"each by itself:  {program.command('-v findings')}")
        if output.verbosity:
            output.tell(f"more about this:  {read_on(finding.kind for finding in unresolved)}")
    else:
        output.say("no such finding is open" if kinds or place or since else "no open findings")
    return code_for_kinds(finding.kind for finding in unresolved)


_ORDERS: dict[str, Callable[[Finding], tuple[object, ...]]] = {
    "number": lambda finding: (finding.id,),
    "gravity": lambda finding: (-GRAVITY[finding.kind], finding.id),
    "path": lambda finding: (absolute(finding.root, finding.path), finding.id),
    "time": lambda finding: (finding.updated_at, finding.id),
}


@click.command(
    epilog=examples(("integrity ack 12", "no more reminders of finding 12"), ("integrity ack 12 13 14", "of several"))
)
@_IDS
@click.pass_obj
def ack(session: Session, ids: tuple[int, ...]) -> int:
    """
    Stop reminders of findings until they change.

    They stay open.
    """
    with session.open_catalog(writes=True) as catalog:
        from integrity.jobs.admin.findings import acknowledge_findings

        return _tell(session, acknowledge_findings(catalog, ids, now=int(time.time())))


@click.command(
    epilog=examples(
        ("integrity mute 12 --until 2w", "no reminders for two weeks"),
        ("integrity mute 12 13 --until 2099-12-24", "until a date"),
    )
)
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
    with session.open_catalog(writes=True) as catalog:
        from integrity.jobs.admin.findings import mute_findings

        return _tell(session, mute_findings(catalog, ids, until, now=now))


def _tell(session: Session, changed: list[Finding]) -> ExitCode:
    from integrity.words.findings import list_lines

    for line in list_lines([(one,) for one in changed]):
        session.output.say(line)
    for finding in changed:
        session.output.give("finding", finding_object(finding))
    return ExitCode.OK


@click.command(
    epilog=examples(
        ("integrity explain /srv/photos/2019/img_0007.jpg", "when it was last verified, what is wrong with it"),
        ("integrity findings --path /srv/photos", "all findings in a folder"),
    )
)
@click.argument("file", type=PATH, metavar="FILE")
@click.pass_obj
def explain(session: Session, file: bytes) -> int:
    """
    Show everything known about a file: when it was verified, its findings, its copies.

    FILE may be the number of a finding about it.

    Exits with 0 if the file is known and has no open finding, 1 if it has one, 2 if it is unknown.
    """
    with at_files(session, [file], writes=False) as there, there.open_catalog(writes=False) as catalog:
        from integrity.jobs.explain import explain as find_story
        from integrity.jobs.explain import find_place

        is_number = file.isdigit() and not os.path.lexists(file)
        place = find_place(catalog, int(file)) if is_number else own_path(file)
        story = find_story(catalog, there.config, place)
    path = absolute(story.root, story.path)
    if not story.is_known:
        if story.is_folder or os.path.isdir(path):
            raise ConfigError(
                f"{show_path(path)}: {'is' if os.path.isdir(path) else 'was'} a folder; name a file in it, or list the"
                " findings in it:"
                f" {program.command('findings --path', path)}"
            )
        if not os.path.lexists(path):
            raise ConfigError(f"{show_path(path)}: there is no such file, and none is recorded")
        raise ConfigError(f"{show_path(path)}: is not recorded; record it: {program.command('scan', path)}")
    for line in describe_story(story, session.output):
        session.output.tell(line)
    session.output.give("file", file_object(story))
    return ExitCode.PROBLEM if story.open_findings else ExitCode.OK
