"""``integrity repair --kept`` and ``--remove-kept``: the damaged files that repairs left."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import confirm
from integrity.cli.running import own_path
from integrity.cli.session import Session
from integrity.config import format_duration, format_size
from integrity.errors import printable, show_path
from integrity.paths import absolute, path_fields
from integrity.words.text import count, iso_time

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.jobs.repair.kept import KeptReport


def list_kept_files(session: Session, paths: Sequence[bytes]) -> ExitCode:
    """Print the files that repairs left, and how to remove them."""
    with session.open_catalog(writes=False) as catalog:
        from integrity.jobs.repair.kept import list_kept

        found = list_kept(catalog, [own_path(path) for path in paths])
    _print_all(session, found)
    if not found:
        session.output.say("no repair left a damaged file")
        return ExitCode.OK
    size = sum(one.kept.stamps[0] for one in found)
    remove = program.command("repair --remove-kept", *paths)
    session.output.say(f"{count(len(found), 'damaged file')} kept ({format_size(size)}); to remove:  {remove}")
    return ExitCode.OK


def remove_kept_files(session: Session, paths: Sequence[bytes], *, is_yes: bool) -> ExitCode:
    """Remove the files that repairs left, each after the repaired file was verified."""
    with session.open_catalog(writes=True) as catalog:
        from integrity.jobs.repair.kept import KeptState, list_kept

        found = list_kept(catalog, [own_path(path) for path in paths])
        if not found:
            session.output.say("no repair left a damaged file")
            return ExitCode.OK
        if not (is_yes or session.output.is_json):
            _print_all(session, found)
        confirm(f"Remove {count(len(found), 'damaged file')} after verifying the repaired ones?", is_yes=is_yes)
        done, is_interrupted = _remove(session, catalog, found)
    _print_all(session, done)
    if is_interrupted:
        return ExitCode.INTERRUPTED
    is_done = len(done) == len(found) and all(one.state in (KeptState.REMOVED, KeptState.GONE) for one in done)
    return ExitCode.OK if is_done else ExitCode.INCOMPLETE


def _remove(session: Session, catalog: Catalog, found: Sequence[KeptReport]) -> tuple[list[KeptReport], bool]:
    from integrity.cli.console import ConsoleReport
    from integrity.cli.daemon_client import borrowing
    from integrity.cli.progress import NoProgress
    from integrity.cli.signals import stop_on_signals
    from integrity.jobs.runner import make_context, remove_kept

    with stop_on_signals() as stop:
        report = ConsoleReport(session.output, NoProgress())
        context = make_context(catalog, session.config, report, jobs=None, stop=stop)
        with borrowing(session, [one.root.path for one in found], context):
            done = remove_kept(context, found)
        report.show()
        return done, stop.is_set()


def _print_all(session: Session, found: Sequence[KeptReport]) -> None:
    output, now = session.output, int(time.time())
    for one in found:
        age = f"{format_size(one.kept.stamps[0])}, {format_duration(max(0, now - one.kept.kept_at))} old"
        state = f"{one.state.value.replace('_', ' ')}{f': {printable(one.reason)}' if one.reason else ''}"
        output.tell(f"{show_path(one.path)}: {state}  ({age})")
        repaired = absolute(one.root.path, one.kept.place.path)
        fields = {"state": one.state.value, "reason": one.reason, "size_bytes": one.kept.stamps[0]}
        times = {"kept_at": iso_time(one.kept.kept_at)}
        output.give("kept_file", path_fields("path", one.path) | path_fields("repaired", repaired) | fields | times)
