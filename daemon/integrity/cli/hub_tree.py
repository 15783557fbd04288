"""``integrity hub tree list|forget|rebind``: the shared trees of a hub."""

from __future__ import annotations

import time

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.hub_database import changing, open_database
from integrity.cli.output import confirm
from integrity.cli.session import Session
from integrity.errors import printable
from integrity.extras import require_hub


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
def list_(session: Session) -> int:
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
