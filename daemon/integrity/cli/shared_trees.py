"""
Commands and shared trees, whose records and findings the hub has.

Commands on files of such a tree use the catalog of the part of it that has them; lists lead to the hub.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING

from integrity import program
from integrity.cli.running import own_path
from integrity.cli.session import Session
from integrity.errors import ConfigError, show_path

if TYPE_CHECKING:
    from integrity.config import ConfiguredRoot


@contextmanager
def at_files(session: Session, files: Sequence[bytes], *, writes: bool) -> Iterator[Session]:
    """
    Yield the session for a command on some files: for those of a shared tree, one with the catalog of their shard.

    Args:
        writes: the command changes the catalog.

    Raises:
        ConfigError: the files lie in several trees, or in several shards of one.
        AppError: the shard can't be had.
    """
    paths = [own_path(file) for file in files]
    root = _find_shared_root(session, paths)
    if root is None:
        yield session
        return
    from integrity.jobs.shards.checkout import check_out
    from integrity.words.findings import finding_object

    checked_out = check_out(session.config, root, paths, finding_object, session.output.say, writes=writes)
    with checked_out as shard:
        there = copy(session)
        there.catalog_option, there.shard = shard.config.catalog, shard.scope
        there.config = shard.config
        yield there


def lead_to_hub(session: Session, places: Sequence[bytes]) -> None:
    """
    Say where the state and the findings of shared trees are: not in this machine's catalog.

    Raises:
        ConfigError: one of the places, of which the command was to tell, lies in such a tree.
    """
    shared = session.config.shared_roots
    if not shared:
        return
    from integrity.jobs.targets import find_shared_root

    page = f"{session.config.hub.url.rstrip('/')}/trees"
    for place in places:
        root = find_shared_root(session.config, place)
        if root is not None:
            raise ConfigError(
                f"{show_path(place)}: lies in the shared tree {root.shared}, whose state and findings are on the hub:"
                f" {page}; about one file: {program.command('explain FILE')}"
            )
    for root in shared:
        session.output.say(
            f"{show_path(root.path)}: the shared tree {root.shared}; its state and findings are on the hub: {page}"
        )


def _find_shared_root(session: Session, paths: Sequence[bytes]) -> ConfiguredRoot | None:
    if not session.config.shared_roots:
        return None
    from integrity.jobs.targets import find_shared_root

    homes = [find_shared_root(session.config, path) for path in paths]
    if any(home != homes[0] for home in homes):
        raise ConfigError(
            f"{show_path(paths[0])}: only some of the files lie in this tree: name them in separate calls"
        )
    return homes[0] if homes else None
