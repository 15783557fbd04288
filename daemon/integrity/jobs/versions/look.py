"""Look which versions of backups have the damaged and missing files whole of which no good copy is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog import files, findings
from integrity.errors import ConfigError, ReadInterrupted
from integrity.jobs.repair_advice import FROM_PARITY, REPAIR, advise_repair
from integrity.jobs.targets import find_target
from integrity.jobs.versions.of_file import find_histories
from integrity.model import SeenVersion
from integrity.paths import absolute
from integrity.verdict import VERDICTS

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.config import Config
    from integrity.hashing.tasks import StopSignal
    from integrity.jobs.versions.of_file import CopyHistory
    from integrity.model import Finding, RootId

_MOST_FILES = 20
"""Of more, none is looked for: what befell so many is not told one by one."""

_MOST_VERSIONS = 60


class StopIf(NamedTuple):
    """A signal to stop that is a condition."""

    is_set: Callable[[], bool]


def look_for_versions(
    catalog: Catalog,
    config: Config,
    *,
    stop: StopSignal,
    warn: Callable[[str], None],
    root_id: RootId | None = None,
) -> list[Finding]:
    """
    Record with open findings which versions have their files, and advise to repair them from there.

    Each finding is looked at once; one whose copies can't be reached, or for which there was no time, is again later.

    Args:
        catalog: open for writing.
        warn: receives, once each, why copies can't be looked at.
        root_id: only findings of this root; None: of all.

    Returns:
        The findings that have another advice now.
    """
    with catalog.read() as connection:
        unlooked = findings.find_unlooked(
            connection, VERDICTS, root_id, unless=REPAIR, but=FROM_PARITY, most=_MOST_FILES + 1
        )
    done: list[Finding] = []
    troubles: dict[str, None] = {}
    for one in unlooked if len(unlooked) <= _MOST_FILES else ():
        try:
            seen = _look(catalog, config, absolute(one.root, one.path), stop, troubles)
        except ReadInterrupted:
            break
        except ConfigError:
            continue  # none of its copies keeps versions
        if seen is not None and (advised := _advise(catalog, one, seen)) is not None:
            done.append(advised)
    for trouble in troubles:
        warn(trouble)
    return done


def _look(
    catalog: Catalog, config: Config, path: bytes, stop: StopSignal, troubles: dict[str, None]
) -> list[SeenVersion] | None:
    """Return what all versions have of a file; None if none has it whole, and not all could be looked at."""
    seen: list[SeenVersion] = []
    histories = list(find_histories(catalog, config, path, stop=stop, most=_MOST_VERSIONS))
    for history in histories:
        if history.trouble:
            troubles[f"the versions of {history.copy} can't be looked at: {history.trouble}"] = None
        seen += _list_seen(history)
    is_open = any(one.trouble for one in histories) and not any(one.good for one in histories)
    return None if is_open else seen


def _list_seen(history: CopyHistory) -> list[SeenVersion]:
    """Return what each version of a copy has of a file, the newest first."""
    return [
        SeenVersion(history.copy, version.name, version.taken_at, one.vote, one.is_silent)
        for one in history.found
        for version in reversed(one.versions)
    ]


def _advise(catalog: Catalog, finding: Finding, seen: list[SeenVersion]) -> Finding | None:
    """Record what was seen, and the advice that follows; None if the finding or the record is gone."""
    with catalog.transaction() as connection:
        target = find_target(connection, absolute(finding.root, finding.path))
        record = files.find_file(connection, target.root.id, target.prefix)
        if record is None:
            return None
        findings.set_versions(connection, finding.id, seen)
        advice = advise_repair(connection, target.root.id, target.root.path, record.path, record.id, finding.kind)
        if advice is not None:
            findings.set_step(connection, [finding.id], advice.words, advice.command)
        return next(iter(findings.get_findings(connection, [finding.id])), None)
