"""``integrity hub run|add|allow|tree|list|revoke|migrate|check``; ``join``, which is for boxes, is in ``hub_join``."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.hub_database import (
    changing,
    create_file,
    create_if_missing,
    find_database,
    find_folder,
    open_database,
)
from integrity.cli.hub_join import join
from integrity.cli.hub_tree import tree
from integrity.cli.hub_try import try_
from integrity.cli.hub_work import work
from integrity.cli.page_access import open_passwords, print_link, read_token, set_password
from integrity.cli.session import Session
from integrity.errors import printable
from integrity.extras import require_hub

if TYPE_CHECKING:
    from integrity.hub.fleet import BoxStatus
    from integrity.hub.members import Grants


_SETS = click.option(
    "--set", "sets", multiple=True, metavar="NAME", help="Replica set that it may be in; may be repeated; '*': any."
)
_TREES = click.option(
    "--tree", "trees", multiple=True, metavar="NAME", help="Shared tree that it may read; may be repeated; '*': any."
)


@click.group(
    epilog=examples(
        ("integrity hub add nas-berlin", "let a box report, and print its token"),
        ("integrity hub run", "run the hub in the foreground"),
        ("integrity hub list", "which boxes there are, and when they reported"),
    )
)
def hub() -> None:
    """Run a hub for several boxes: compare their copies, and notice boxes that fall silent."""


hub.add_command(join)


@hub.command(
    epilog=examples(
        ("integrity hub run", "then open the printed link"),
        ("integrity hub run --set-password", "a new password for its pages"),
    )
)
@click.option("--set-password", "sets_password", is_flag=True, help="Ask for a new password, store it, and exit.")
@click.pass_obj
def run(session: Session, sets_password: bool) -> int:
    """
    Run the hub in the foreground.

    It listens on [hub_server] listen, by default http://127.0.0.1:8433. The first start prints a link that sets the
    password of its pages. To run it under systemd: integrity service install --hub.
    """
    require_hub()
    passwords = open_passwords("integrity-hub")
    if sets_password:
        set_password(passwords, session.output)
        return ExitCode.OK
    token = read_token(session.config.hub_server.token_file, "[hub_server] token_file")
    from integrity.cli.daemon import set_up_logging
    from integrity.hub.database import HubDatabase
    from integrity.hub.server import run_hub
    from integrity.service.sd_notify import Notifier
    from integrity.service.startup import limit_memory_use

    limit_memory_use()
    set_up_logging(session.output.verbosity)
    settings = session.config.hub_server
    scheme = "https" if settings.certificate else "http"
    url = settings.public_url.rstrip("/") or f"{scheme}://{settings.listen}"

    def ready() -> None:
        Notifier().ready()
        session.output.say(f"The hub is at {url}/")
        print_link(passwords, url, session.output)

    create_if_missing(session)
    with closing(HubDatabase.open(find_database(session))) as database:
        run_hub(session.config, database, passwords, token, find_folder(session), ready=ready)
    return ExitCode.OK


@hub.command(
    epilog=examples(
        ("integrity hub add nas-berlin --set photos", "then on that box: integrity hub join URL"),
        ("integrity hub add nas-berlin --tree archive", "let it work on a shared tree"),
        ("integrity hub add nas-berlin -q > token.txt", "only the token, for a script"),
    )
)
@_SETS
@_TREES
@click.argument("box")
@click.pass_obj
def add(session: Session, box: str, sets: tuple[str, ...], trees: tuple[str, ...]) -> int:
    """
    Let a box report, and print its token, which is shown only once.

    It can name itself into no replica set and no shared tree but those that are given here, or later to `hub allow`.
    A box whose token was revoked gets a new one, and keeps its history and what it may be in.
    """
    require_hub()
    from integrity.hub import boxes
    from integrity.hub.members import get_grants, read_grants

    given = read_grants(sets, trees)
    create_if_missing(session)
    with changing(session, "add_box", box) as c:
        token = boxes.add_box(c, box, int(time.time()), given)
        granted = get_grants(c, box)
    session.output.say(_describe_grants(box, granted))
    session.output.say(f"{box} may report now. On it, run `integrity hub join URL`, and give it this token:")
    session.output.tell(token)
    session.output.give("hub_box_added", {"box": box, "token": token, **_grants_object(granted)})
    return ExitCode.OK


@hub.command(
    epilog=examples(
        ("integrity hub allow nas-berlin --set photos", "let it be in one more replica set"),
        ("integrity hub allow nas-berlin", "what it may be in"),
        ("integrity hub allow nas-berlin --set photos --remove", "no longer, from its next report on"),
    )
)
@_SETS
@_TREES
@click.option("--remove", "removes", is_flag=True, help="Take back what is given, instead of adding it.")
@click.argument("box")
@click.pass_obj
def allow(session: Session, box: str, sets: tuple[str, ...], trees: tuple[str, ...], removes: bool) -> int:
    """Set which replica sets and shared trees a box may be in; without options, print them."""
    require_hub()
    from integrity.hub.members import add_grants, get_grants, read_grants, remove_grants

    given = read_grants(sets, trees)
    if removes and not (sets or trees):
        raise click.UsageError("--remove: give what to take back, with --set or --tree")
    if sets or trees:
        with changing(session, "disallow" if removes else "allow", box) as c:
            (remove_grants if removes else add_grants)(c, box, given)
            granted = get_grants(c, box)
    else:
        with open_database(session) as database, database.read() as c:
            granted = get_grants(c, box)
    session.output.tell(_describe_grants(box, granted))
    session.output.give("hub_box_allowed", {"box": box, **_grants_object(granted)})
    return ExitCode.OK


def _describe_grants(box: str, granted: Grants) -> str:
    """Return what a box may be in, and how to change that."""
    if not (granted.sets or granted.trees):
        allow = program.command(f"hub allow {box} --set NAME")
        return f"{box} may be in no replica set and no shared tree. To change that: {allow}"
    kinds = (("replica sets", granted.sets), ("shared trees", granted.trees))
    parts = [f"{words}: {', '.join(map(printable, sorted(names)))}" for words, names in kinds if names]
    return f"{box} may be in {'; '.join(parts)}."


def _grants_object(granted: Grants) -> dict[str, object]:
    return {"sets": sorted(granted.sets), "trees": sorted(granted.trees)}


@hub.command("list", epilog=examples(("integrity hub list", "all boxes"), ("integrity hub list --json", "for scripts")))
@click.pass_obj
def list_(session: Session) -> int:
    """List the boxes, the worst first: how each is, and how long ago it reported."""
    require_hub()
    from integrity.hub.fleet import BoxOrder, load_boxes
    from integrity.words.text import iso_time

    with open_database(session) as database, database.read() as c:
        after_s = session.config.hub_server.silent_after_s
        found = load_boxes(c, int(time.time()), after_s, order=BoxOrder.HEALTH)
    for one in found:
        session.output.tell(_describe(one))
        fields = {"name": one.name, "hostname": one.hostname, "version": one.version, "sentence": one.sentence}
        times = {"seen_at": iso_time(one.seen_at), "revoked_at": iso_time(one.revoked_at)}
        state = {"health": one.health.value, "is_silent": one.is_silent, "silence_s": one.silence_s}
        session.output.give("hub_box", {**fields, **times, **state, "clock_ahead_s": one.clock_ahead_s})
    if not found:
        session.output.say(f"No box may report yet. Let one: {program.command('hub add BOX')}")
    return ExitCode.OK


@hub.command(
    epilog=examples(
        ("integrity hub revoke nas-berlin", "its token is worthless from now on"),
        ("integrity hub revoke --forget nas-berlin", "remove what it reported, too"),
        ("integrity hub add nas-berlin", "let it report again, with a new token"),
    )
)
@click.option("--forget", "forgets", is_flag=True, help="Also delete all that the box reported.")
@click.argument("box")
@click.pass_obj
def revoke(session: Session, box: str, forgets: bool) -> int:
    """Revoke the token of a box; what it reported stays, unless --forget is given."""
    require_hub()
    from integrity.hub import boxes

    with changing(session, "forget_box" if forgets else "revoke_box", box) as c:
        boxes.revoke_box(c, box, int(time.time()), forgets=forgets)
    session.output.say(f"{box} may not report any more. A new token for it: {program.command(f'hub add {box}')}")
    return ExitCode.OK


@hub.command(
    epilog=examples(
        ("integrity hub migrate", "after an upgrade, while the hub is stopped"),
        ("integrity hub migrate && integrity hub check", "and see whether all is well"),
    )
)
@click.pass_obj
def migrate(session: Session) -> int:
    """Create the hub's tables, or bring those of an older version up to date."""
    require_hub()
    from integrity.hub.migrate import migrate as run_migrations
    from integrity.hub.schema import SCHEMA_REVISION

    create_file(find_database(session))
    with open_database(session, any_revision=True) as database:
        before = run_migrations(database)
    words = "up to date" if before == SCHEMA_REVISION else f"migrated from schema {before}" if before else "created"
    session.output.say(f"{database.place}: {words} (schema {SCHEMA_REVISION}).")
    return ExitCode.OK


@hub.command(
    epilog=examples(
        ("integrity hub check", "after a crash, or when in doubt"),
        ("integrity hub check --json", "for scripts"),
    )
)
@click.pass_obj
def check(session: Session) -> int:
    """
    Check the hub's database.

    Digests are computed again from all rows, and compared with those that the boxes reported. Exits with 0 if all is
    well, 4 if not.
    """
    require_hub()
    from integrity.hub.check import check_hub

    with open_database(session, any_revision=True) as database:
        found = check_hub(database, int(time.time()))
    for problem in found.problems:
        session.output.tell(problem)
        session.output.give("hub_problem", {"message": problem})
    checked = f"{found.boxes:,} boxes, {found.folders:,} folders, {found.files:,} files"
    if found.problems:
        session.output.tell(f"{database.place}: {len(found.problems):,} problems ({checked} checked).")
    else:
        session.output.say(f"{database.place}: all is well. Checked {checked}.")
    summary: dict[str, object] = {
        "is_ok": not found.problems,
        "boxes": found.boxes,
        "folders": found.folders,
        "files": found.files,
    }
    session.output.give("hub_check", summary)
    return ExitCode.CATALOG if found.problems else ExitCode.OK


def _describe(one: BoxStatus) -> str:
    """Return a line about a box: how it is, for how long it has been silent, and what it said last."""
    from integrity.config import format_duration

    if one.revoked_at is not None:
        return f"{one.name}: revoked {format_duration(max(0, int(time.time()) - one.revoked_at))} ago"
    if one.silence_s is None:
        return f"{one.name}: {one.health.words}"
    ago = format_duration(one.silence_s)
    if one.is_silent:
        return f"{one.name}: SILENT for {ago}; before: {one.sentence or 'it read shared trees'}"
    if one.seen_at is None:
        return f"{one.name}: {one.health.words}, last {ago} ago"
    return f"{one.name}: {one.health.words}; reported {ago} ago: {one.sentence}"


hub.add_command(try_)
hub.add_command(work)
hub.add_command(tree)
