"""``integrity hub run|add|allow|tree|list|revoke|migrate|check``; what boxes do is in ``hub_box``."""

from __future__ import annotations

import getpass
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.hub_box import join, try_, work
from integrity.cli.output import confirm
from integrity.cli.params import examples
from integrity.cli.session import Session
from integrity.cli.web import open_passwords, print_link, read_token, set_password
from integrity.errors import HubDatabaseError, printable
from integrity.extras import require_hub

if TYPE_CHECKING:
    from integrity.cli.session import Session
    from integrity.hub.database import Connection, HubDatabase
    from integrity.hub.fleet import BoxStatus
    from integrity.hub.members import Grants

_FILE = b"hub.db"
_UNIT_USER = "integrity-hub"
_SYSTEM_FOLDER = b"/var/lib/integrity-hub"
"""What the unit has, and with it the commands of root."""


def open_database(session: Session, *, any_revision: bool = False) -> closing[HubDatabase]:
    from integrity.hub.database import HubDatabase

    place = find_database(session)
    if not place.startswith("/") and urlsplit(place).username is None:
        _become_hub()
    return closing(HubDatabase.open(place, any_revision=any_revision))


def _become_hub() -> None:
    """Go on as the unit's user if this is root: PostgreSQL lets in who is known by the name of the role."""
    try:
        user = pwd.getpwnam(_UNIT_USER)
    except KeyError:  # there is no unit
        return
    if os.geteuid() == 0:
        os.environ["HOME"] = user.pw_dir  # libpq looks there for certificates
        os.initgroups(user.pw_name, user.pw_gid)
        os.setegid(user.pw_gid)
        os.seteuid(user.pw_uid)


@contextmanager
def changing(session: Session, verb: str, subject: str) -> Iterator[Connection]:
    from integrity.hub import audit

    with open_database(session) as database, database.transaction() as c:
        yield c
        who, at = getpass.getuser(), int(time.time())
        audit.record(c, at=at, who=who, address=audit.COMMAND_LINE, verb=verb, subject=subject, outcome="done")


def create_if_missing(session: Session) -> None:
    """Create an SQLite database with the first command that needs one; PostgreSQL's is created by ``hub migrate``."""
    place = find_database(session)
    if place.startswith("/") and not os.path.exists(place):
        from integrity.hub.database import HubDatabase
        from integrity.hub.migrate import migrate as run_migrations

        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        create_file(place)
        with closing(HubDatabase.open(place, any_revision=True)) as database:
            run_migrations(database)


def create_file(place: str) -> None:
    """Create an SQLite file for its owner only, who is that of the folder: SQLite gives the log the same rights."""
    folder = os.path.dirname(place)
    if not place.startswith("/") or os.path.exists(place) or not os.path.isdir(folder):
        return
    os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    if os.geteuid() == 0:  # the folder may be that of the unit's user
        owner = os.stat(folder)
        os.chown(place, owner.st_uid, owner.st_gid)


def find_database(session: Session) -> str:
    given = session.config.hub_server.database
    if given:
        return given
    try:
        return os.path.join(find_folder(session), _FILE).decode()
    except UnicodeDecodeError as error:
        raise HubDatabaseError("the folder of the catalog is not UTF-8; set [hub_server] database") from error


def find_folder(session: Session) -> bytes:
    """Return the absolute path of the folder of the hub's files: the unit's, which is root's too, or the catalog's."""
    folder = os.environb.get(b"STATE_DIRECTORY", b"").partition(b":")[0]
    if not folder:
        is_system = os.geteuid() == 0 and not os.environb.get(b"XDG_STATE_HOME")
        folder = _SYSTEM_FOLDER if is_system else os.path.dirname(session.catalog_path)
    return os.path.abspath(folder)


@click.group(
    epilog=examples(
        ("integrity hub tree list", "which shared trees there are, and whether they are read in time"),
        ("integrity hub tree rebind archive --moved", "after its files were moved to another file system"),
        ("integrity hub tree forget archive", "delete its records on the hub"),
    )
)
def tree() -> None:
    """List, forget or rename the shared trees of a hub."""


@tree.command(
    "list", epilog=examples(("integrity hub tree list", "all trees"), ("integrity hub tree list --json", "for scripts"))
)
@click.pass_obj
def list_trees(session: Session) -> int:
    """List the shared trees: whether everything is read in time, and which boxes may read them."""
    require_hub()
    from integrity.hub.members import find_granted_boxes
    from integrity.hub.shards.promise import find_promises, tree_object

    now = int(time.time())
    with open_database(session) as database, database.read() as c:
        found = find_promises(c, session.config.hub_server.shard_lease_s, now)
        boxes = {one.name: find_granted_boxes(c, one.name) for one in found}
    for one in found:
        who = ", ".join(boxes[one.name]) or "no box"
        session.output.tell(f"{printable(one.name)}: {one.describe(now)} Allowed to read it: {who}.")
        session.output.give("hub_tree", {**tree_object(one, now), "allowed": boxes[one.name]})
    if not found:
        session.output.say("There is no shared tree yet. A box that has `shared` in a [[root]] makes it when it works.")
    return ExitCode.OK


@tree.command(
    epilog=examples(
        ("integrity hub tree forget archive", "shows what goes, and asks"),
        ("integrity hub tree forget archive --yes", "without asking"),
    )
)
@click.option("--yes", "is_yes", is_flag=True, help="Don't ask for confirmation.")
@click.argument("name")
@click.pass_obj
def forget(session: Session, name: str, is_yes: bool) -> int:
    """
    Delete what the hub has of a shared tree: its parts, their records, and its findings. No file is touched.

    No box may work on a tree of this name any more, until `hub allow BOX --tree NAME` lets it: then it begins anew.
    """
    require_hub()
    from integrity.hub.schema import shared_tree
    from integrity.hub.shards.promise import find_promises
    from integrity.hub.shards.tree_disks import forget_tree, get_tree_id

    now = int(time.time())
    with open_database(session) as database, database.read() as c:
        get_tree_id(c, name, locks=False)
        (promise,) = find_promises(c, session.config.hub_server.shard_lease_s, now, shared_tree.c.name == name)
    size = f"{promise.shards:,} parts, {promise.files:,} files, {promise.workers:,} workers now"
    confirm(f"Forget what is recorded of the shared tree {printable(name)} ({size})?", is_yes=is_yes)
    with changing(session, "forget_tree", name) as c:
        forget_tree(c, name, now)
    session.output.say(f"{printable(name)}: forgotten. Take `shared` out of the configuration of its boxes.")
    session.output.give("hub_tree_forgotten", {"name": name, "shards": promise.shards, "files": promise.files})
    return ExitCode.OK


@tree.command(
    epilog=examples(
        ("integrity hub tree rebind archive films", 'rename it; then `shared = "films"` on its boxes'),
        ("integrity hub tree rebind archive --moved", "its files are on another file system now"),
    )
)
@click.option("--moved", "is_moved", is_flag=True, help="The files were moved: the next box says which folder it is.")
@click.option("--yes", "is_yes", is_flag=True, help="Don't ask for confirmation.")
@click.argument("name")
@click.argument("new_name", required=False)
@click.pass_obj
def rebind(session: Session, name: str, new_name: str | None, is_moved: bool, is_yes: bool) -> int:
    """
    Rename a shared tree, or have it read at another place. All records stay.

    After --moved everything is read against the old records: what was damaged on the way is found.
    """
    require_hub()
    from integrity.hub.members import read_grants
    from integrity.hub.shards.tree_disks import get_tree_id, release_folder, rename_tree

    if not is_moved and new_name is None:
        raise click.UsageError("give a new name, or --moved")
    read_grants((), () if new_name is None else (new_name,))
    with open_database(session) as database, database.read() as c:
        get_tree_id(c, name, locks=False)
    what = [f"rename it to {printable(new_name)}"] if new_name is not None else []
    what += ["let the next box say which folder it is"] if is_moved else []
    confirm(f"Shared tree {printable(name)}: {' and '.join(what)}?", is_yes=is_yes)
    with changing(session, "rebind_tree", name) as c:
        if is_moved:
            release_folder(c, name, int(time.time()))
        if new_name is not None:
            rename_tree(c, name, new_name)
    now_called = name if new_name is None else new_name
    if new_name is not None:
        session.output.say(f"{printable(name)} is called {printable(new_name)} now: change `shared` on its boxes.")
    if is_moved:
        session.output.say(f"{printable(now_called)}: the next box that works on it says which folder it is.")
    session.output.give("hub_tree_rebound", {"name": now_called, "former_name": name, "is_moved": is_moved})
    return ExitCode.OK


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
    from integrity.service.process import Notifier
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
    from integrity.units import format_duration

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
