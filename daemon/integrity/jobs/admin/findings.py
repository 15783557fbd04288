"""Acknowledge and mute findings, because a person says so. They stay open; only their reminders stop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from integrity import program
from integrity.catalog import findings
from integrity.catalog.roots import find_roots
from integrity.catalog.runs import Action, record_action
from integrity.errors import ConfigError, show_path
from integrity.jobs.actor import find_user
from integrity.model import ActionVerb, Actor, Finding, FindingId, FindingKind, FindingState
from integrity.paths import absolute

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog


def list_findings(
    catalog: Catalog,
    *,
    kinds: Collection[FindingKind] = (),
    path: bytes | None = None,
    include_resolved: bool = False,
    since: int | None = None,
) -> list[Finding]:
    """
    Return the findings that match, each incident once, in the order of their numbers.

    Args:
        kinds: empty: all of them.
        path: absolute; only findings at or below it.
        since: only findings that changed at or after this time.

    Raises:
        ConfigError: nothing that is watched is at the path, so "none" would not mean that all is well.
    """
    with catalog.read() as connection:
        found = findings.find_findings(connection, include_resolved=include_resolved, since=since)
        known = [root.path for root in find_roots(connection)]
        if path is not None and not any(_is_below(root, path) or _is_below(path, root) for root in known):
            raise ConfigError(
                f"{show_path(path)}: is not watched, so there are no findings about it; the watched folders:"
                f" {program.command('root list')}"
            )
        matching = [
            one
            for one in found
            if (not kinds or one.kind in kinds) and (path is None or _is_below(absolute(one.root, one.path), path))
        ]
        return findings.as_incidents(connection, matching)


def _is_below(path: bytes, folder: bytes) -> bool:
    return path == folder or path.startswith(folder.rstrip(b"/") + b"/")


def acknowledge_findings(
    catalog: Catalog, ids: Sequence[int], *, now: int, actor: Actor | None = None
) -> list[Finding]:
    """
    Stop the reminders of findings until they change, and return them as they are then.

    Raises:
        ConfigError: one does not exist or is resolved; nothing was done for any.
    """
    return _silence(catalog, ids, None, ActionVerb.ACK, "acknowledged", now, actor)


def mute_findings(
    catalog: Catalog, ids: Sequence[int], until: int, *, now: int, actor: Actor | None = None
) -> list[Finding]:
    """
    Stop the reminders of findings until a time (seconds UTC), and return them as they are then.

    Raises:
        ConfigError: the time is past, or a finding does not exist or is resolved; nothing was done for any.
    """
    if until <= now:
        raise ConfigError("the time until which to mute is in the past; choose a later one")

    outcome = f"muted until {datetime.fromtimestamp(until, UTC):%Y-%m-%d %H:%M} UTC"
    return _silence(catalog, ids, until, ActionVerb.MUTE, outcome, now, actor)


def _silence(
    catalog: Catalog,
    ids: Sequence[int],
    until: int | None,
    verb: ActionVerb,
    outcome: str,
    now: int,
    actor: Actor | None,
) -> list[Finding]:
    actor = actor or find_user()
    wanted = [FindingId(number) for number in dict.fromkeys(ids)]
    with catalog.transaction() as connection:
        found = [findings.get_finding(connection, number) for number in wanted]
        for one in found:
            if one.state is FindingState.RESOLVED:
                raise ConfigError(f"finding {one.id}: is resolved already ({one.resolution})")
        findings.silence(connection, wanted, until)
        for root in dict.fromkeys(one.root for one in found):
            here = [one for one in found if one.root == root]
            path = here[0].path if len(here) == 1 else None
            done = Action(actor, verb, outcome, root, path, tuple(one.id for one in here))
            record_action(connection, done, now)
        return [findings.get_finding(connection, number) for number in wanted]
