"""``integrity status``."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode, code_for_kinds
from integrity.cli.output import print_line
from integrity.cli.params import PATH, examples
from integrity.cli.running import lead_to_hub, real_path
from integrity.cli.session import Session
from integrity.errors import AppError, ConfigError, printable, show_path
from integrity.model import RootState
from integrity.paths import path_fields
from integrity.views.copies import make_copy_card
from integrity.views.roots import AHEAD, make_root_card
from integrity.views.sentence import describe_hub, describe_sentence, find_trouble, hub_object, sum_up_status
from integrity.views.service import (
    ServiceView,
    channel_object,
    describe_channel,
    describe_service,
    make_alerts_card,
    service_object,
)
from integrity.words.card import write_terminal
from integrity.words.text import JsonObject

if TYPE_CHECKING:
    from integrity.catalog.connection import Catalog
    from integrity.jobs.scrub.plan import OpenTimes
    from integrity.jobs.status import Status


_NAGIOS = {ExitCode.OK: (0, "OK"), ExitCode.INCOMPLETE: (1, "WARNING"), ExitCode.PROBLEM: (2, "CRITICAL")}
_NAGIOS_UNKNOWN = 3


@click.command(
    epilog=examples(
        ("integrity status", "all watched folders, the service and alerts"),
        ("integrity status /srv/photos", "one of them"),
        ("integrity status --nagios", "one line for a monitoring plug-in"),
    )
)
@click.argument("paths", nargs=-1, type=PATH, metavar="[PATH]...")
@click.option("--nagios", is_flag=True, help="Print one line for a monitoring plug-in; exits with 0, 1, 2, or 3.")
@click.option("--prometheus", is_flag=True, help="Print metrics in the text format of Prometheus; exits with 0.")
@click.pass_obj
def status(session: Session, paths: tuple[bytes, ...], nagios: bool, prometheus: bool) -> int:
    """
    Show the watched folders, when they were verified, and open findings.

    Without PATH: all watched folders. The exit code reflects all open findings.
    """
    if nagios + prometheus + session.output.is_json > 1:
        raise click.UsageError("--json, --nagios and --prometheus exclude each other: each says what is printed")
    from integrity.cli.daemon_client import find_service

    if prometheus:
        return _print_metrics(session, paths)
    if not nagios:
        lead_to_hub(session, [real_path(path) for path in paths])
        found = _find(session, paths)
        return _print_status(found, find_service(session, found.past_service), session)
    try:
        found = _find(session, paths)
    except AppError as error:
        text = "; ".join(printable(line) for line in str(error).split("\n"))
        print_line(f"INTEGRITY UNKNOWN: {text}")
        return _NAGIOS_UNKNOWN
    return _print_nagios(found, find_service(session, found.past_service))


def _print_metrics(session: Session, paths: tuple[bytes, ...]) -> ExitCode:
    """Print metrics; a problem is in their values, so that a script can put them in place whatever they are."""
    from importlib.util import find_spec

    from integrity.cli.daemon_client import find_service
    from integrity.extras import how_to_install

    if find_spec("prometheus_client") is None:
        raise ConfigError(f"--prometheus needs packages that are not installed; {how_to_install('web')}")
    from integrity.web.metrics import write_metrics

    with session.open_catalog(writes=False) as catalog:
        found = _find_in(catalog, session, paths)
        metrics = write_metrics(catalog, found, find_service(session, found.past_service))
    for line in metrics.decode().splitlines():
        print_line(line)
    return ExitCode.OK


def _find(session: Session, paths: tuple[bytes, ...]) -> Status:
    with session.open_catalog(writes=False) as catalog:
        return _find_in(catalog, session, paths)


def _find_in(catalog: Catalog, session: Session, paths: tuple[bytes, ...]) -> Status:
    from integrity.jobs.status import find_status

    def find_windows() -> OpenTimes:
        from integrity.service.schedule.clock import local_zone, parse_windows

        return parse_windows(session.config.schedule.scrub, local_zone())

    return find_status(catalog, session.config, [real_path(path) for path in paths], find_windows=find_windows)


def _print_status(found: Status, live: ServiceView, session: Session) -> ExitCode:
    output = session.output
    code = _find_code(found, live)
    show = output.say if code is ExitCode.OK else output.tell
    for line in describe_sentence(sum_up_status(found, live), output):
        show(line)
    for one in found.roots:
        card = make_root_card(one, live, found.at, output)
        for line in (*write_terminal(card, output), ""):
            show(line)
        output.give("root", card.facts)
    for copy in found.copies:
        card = make_copy_card(copy, found, live, output)
        for line in (*write_terminal(card, output), ""):
            show(line)
        output.give("copy", card.facts)
    for line in _describe_rest(found, live, is_verbose=output.verbosity > 0):
        show(line)
    alerts = make_alerts_card(found.alerts, live, session.config_place)
    for line in write_terminal(alerts, output):
        show(line)
    for line in describe_hub(found.hub, live):
        show(line)
    for channel in found.alerts.channels:
        for line in describe_channel(channel, output):
            output.tell(line)
        output.give("channel", channel_object(channel))
    output.give("alerts", alerts.facts)
    if found.hub is not None:
        output.give("hub", hub_object(found.hub, live))
    output.give("service", service_object(live))
    output.give("status", _status_object(found, code))
    return code


def _describe_rest(found: Status, live: ServiceView, *, is_verbose: bool) -> Iterator[str]:
    """Write what concerns all roots, and hints."""
    from integrity.words.text import describe_core

    if is_verbose and any(one.settings.builtin_excludes for one in found.roots):
        yield f"Built-in list of excluded names: {' '.join(found.builtin_excludes)}"
    yield f"Hash core: {describe_core()}"
    yield from describe_service(live)
    for name in found.lost_copies:
        yield (
            f"Hint: the copy {name} is of an unwatched folder, so it is never"
            f" compared:  {program.command('config check')}"
        )
    for path in found.unscanned:
        yield f"Hint: {show_path(path)} is configured and was never scanned:  {program.command('scan', path)}"
    for path in (one.root.path for one in found.roots if one.last_scrub is None and one.coverage.files):
        yield f"Hint: {show_path(path)} was never verified:  {program.command('scrub', path)}"


def _status_object(found: Status, code: ExitCode) -> JsonObject:
    from integrity.words.text import describe_core

    return {
        "roots": len(found.roots),
        "files": sum(one.coverage.files for one in found.roots),
        "copies": len(found.copies),
        "findings_open": found.open_kinds.total(),
        "files_overdue": sum(one.coverage.overdue_files for one in found.roots if one.is_overdue),
        "unscanned": [path_fields("path", path) for path in found.unscanned],
        "builtin_excludes": list(found.builtin_excludes),
        "hash_core": describe_core(),
        "exit_code": code.value,
    }


def _find_code(found: Status, live: ServiceView) -> ExitCode:
    """Say how all is: a service that has ended or can't record covers nothing, and who is not told knows nothing."""
    code = code_for_kinds(found.kinds)
    is_incomplete = found.full_folder or live.stop_reason or live.is_missing
    if code is ExitCode.OK and (is_incomplete or found.lasting_failures or found.is_hub_silent):
        return ExitCode.INCOMPLETE
    return code


def _print_nagios(found: Status, live: ServiceView) -> int:
    """Print the line that monitoring plug-ins print: state, text, and figures behind a bar."""
    from integrity.units import format_duration
    from integrity.words.text import count

    code = _find_code(found, live)
    number, word = _NAGIOS[code]
    open_kinds = found.open_kinds
    files = sum(one.coverage.files for one in found.roots)
    overdue = sum(one.coverage.overdue_files for one in found.roots if one.is_overdue)
    parts = [f"{number:,} {kind.value}" for kind, number in sorted(open_kinds.items())]
    parts += [printable(text.rstrip(".")) for text in find_trouble(found, live)]
    parts += [f"{overdue:,} overdue"] if overdue else []
    parts += [f"copy {printable(one.name)} overdue" for one in found.copies if one.is_overdue]
    parts += [f"{show_path(one.root.path)} suspended" for one in found.roots if one.root.state is RootState.SUSPENDED]
    parts += [f"alerts by {printable(one.name)} fail" for one in found.lasting_failures]
    parts += ["reports to the hub fail"] if found.is_hub_silent else []
    oldest = min((one.coverage.oldest_at for one in found.roots if one.coverage.oldest_at is not None), default=None)
    age = None if oldest is None else max(0, round(time.time()) - oldest)
    parts += [count(len(found.roots), "root"), count(files, "file")]
    if age is not None:
        known = all(one.coverage.is_oldest_known for one in found.roots if one.coverage.oldest_at is not None)
        parts.append("oldest verification " + (f"{format_duration(age)} ago" if known else AHEAD))
    figures = f"findings={open_kinds.total()} overdue={overdue} files={files} oldest={0 if age is None else age}s"
    # A bar in the text would begin the figures.
    print_line(f"INTEGRITY {word}: {', '.join(parts).replace('|', '!')} | {figures}")
    return number
