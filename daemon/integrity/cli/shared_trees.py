"""Commands on files of a shared tree: they use the catalog of the part of the tree that has the files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

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
    from integrity.views.objects import finding_object

    checked_out = check_out(session.config, root, paths, finding_object, session.output.say, writes=writes)
    with checked_out as shard:
        there = replace(session, catalog_option=shard.config.catalog, shard=shard.scope)
        there.config = shard.config
        try:
            yield there
        finally:
            session.has_met_damage |= there.has_met_damage


def _find_shared_root(session: Session, paths: Sequence[bytes]) -> ConfiguredRoot | None:
    from integrity.jobs.targets import is_inside

    shared = [root for root in session.config.roots if root.shared]
    if not shared:
        return None
    homes = [next((root for root in shared if is_inside(path, root.path)), None) for path in paths]
    if any(home != homes[0] for home in homes):
        raise ConfigError(
            f"{show_path(paths[0])}: only some of the files lie in this tree: name them in separate calls"
        )
    return homes[0] if homes else None
