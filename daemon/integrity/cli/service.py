"""``integrity service install|uninstall|show``."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.params import PATH, examples
from integrity.cli.session import Session
from integrity.errors import ConfigError, show_path
from integrity.extras import require_hub, require_web
from integrity.installation import describe_removal
from integrity.paths import path_fields, shell_path
from integrity.service.systemd.installed import Scope, find_packaged

if TYPE_CHECKING:
    from integrity.config import Config
    from integrity.service.systemd.units import SystemdStep, UnitChange

_GROUP = "integrity"

_user = click.option("--user", "is_user", is_flag=True, help="Your own service instead of the system's.")
_root = click.option(
    "--root", "root_folder", type=PATH, metavar="DIR", help="Write below DIR instead of /, and leave systemd alone."
)
_allow_repair = click.option(
    "--allow-repair", is_flag=True, help="Let the service repair files in the configured folders, as the page asks."
)


@click.group(
    epilog=examples(
        ("integrity service install --now", "install and start it, as root"),
        ("integrity service uninstall", "stop and remove it; catalog and config stay"),
        ("integrity status", "does it run, and what does it do?"),
    )
)
def service() -> None:
    """
    Install, uninstall, or show the systemd units.

    To stop the service for a while: systemctl stop integrity; one folder only: integrity root pause. To stop it for
    good: integrity service uninstall.
    """


@service.command(
    epilog=examples(
        ("integrity service install --now", "install and start the service, as root"),
        ("integrity service install --web --now", "with the page for browsers"),
        ("integrity service install --user --now", "your own, without root"),
    )
)
@_user
@_root
@click.option("--now", is_flag=True, help="Also start the service, now and at each boot (--user: at each login).")
@click.option("--web", "has_page", is_flag=True, help="Also install the page for browsers, with a user of its own.")
@click.option("--hub", "has_hub", is_flag=True, help="Also install a hub for several boxes, with a user of its own.")
@_allow_repair
@click.option("--force", is_flag=True, help="Replace files that were edited; the edited ones are kept beside them.")
@click.pass_obj
def install(
    session: Session,
    is_user: bool,
    root_folder: bytes | None,
    now: bool,
    has_page: bool,
    has_hub: bool,
    allow_repair: bool,
    force: bool,
) -> int:
    """
    Write the systemd unit and the files that belong to it.

    The system's service runs as the user `integrity`, who can read all files and change only its own. Run this
    again after an upgrade. Files that you edited are not replaced without --force: use a drop-in (systemctl edit
    integrity) instead.
    """
    from integrity.service.systemd import units

    scope = _choose(is_user, root_folder)
    if now and root_folder is not None:
        raise ConfigError("--now and --root exclude each other: below another folder nothing can be started")
    _require_systems_page(is_user, has_page, has_hub)
    if has_page:
        require_web()
    if has_hub:
        require_hub()
    reads = _find_what_the_page_reads() if has_page else []
    repair_in = _find_folders_to_repair(is_user) if allow_repair else []
    writes = _find_written_folders()
    place = units.find_program()
    if scope is Scope.SYSTEM and root_folder is None:
        units.require_reachable(place)
    files = units.make_units(
        scope,
        place,
        root_folder or b"/",
        has_page=has_page,
        has_hub=has_hub,
        page_reads=reads,
        repair_in=repair_in,
        writes=writes,
    )
    for change in units.install(files, replaces_edited=force):
        _tell(session, change)
    for danger in units.find_dangers(place) if scope is Scope.SYSTEM and root_folder is None else ():
        session.output.warn(danger)
    steps, starting = units.steps_to_install(scope, files), units.steps_to_start(scope, files)
    if root_folder is not None:
        return ExitCode.OK
    _tell_recipients(session)
    if not units.is_running(scope):
        _say_steps(session, "systemd does not run here, so nothing was started. Where it does:", [*steps, *starting])
        return ExitCode.OK
    units.take(steps)
    if not is_user:
        _share_config()
        _require_writable(writes)
    units.take(starting if now else [])
    if now:
        session.output.say(f"started; see how it does:  {program.command('status')}")
        if has_page:
            session.output.say("The page's log has the link that sets its password:  journalctl -u integrity-web -n 5")
        if has_hub:
            session.output.say("The hub's log has the link that sets its password:  journalctl -u integrity-hub -n 5")
    else:
        _say_steps(session, "To start it, now and whenever it should run:", starting)
    if is_user:
        session.output.say("It runs while you are logged in; to have it run always:  loginctl enable-linger")
    return ExitCode.OK


@service.command(
    epilog=examples(
        ("integrity service uninstall", "stop and remove the system's service"),
        ("integrity service uninstall --user", "your own"),
    )
)
@_user
@_root
@click.pass_obj
def uninstall(session: Session, is_user: bool, root_folder: bytes | None) -> int:
    """Stop the service, the page and the hub, and remove their files; the catalog, the config and the users stay."""
    from integrity.service.systemd import units

    scope = _choose(is_user, root_folder)
    is_system = scope is Scope.SYSTEM
    packaged = find_packaged(root_folder or b"/") if is_system else None
    if packaged is not None:
        raise ConfigError(
            f"{show_path(packaged)}: belongs to a package; remove that with the package manager, or only stop the"
            " service: systemctl disable --now integrity integrity-web integrity-hub"
        )
    files = [
        unit
        for unit in units.make_units(
            scope,
            b"/integrity",
            root_folder or b"/",
            has_page=is_system,
            has_hub=is_system,
            page_reads=[b"/srv"],
            repair_in=[b"/"] if is_system else (),
            writes=[b"/srv"],
        )
        if units.find_state(unit) is not units.UnitState.ABSENT or unit.path.endswith(b"/integrity.service")
    ]
    is_managed = root_folder is None and units.is_running(scope)
    if is_managed and units.find_state(files[0]) is not units.UnitState.ABSENT:
        units.take(units.steps_to_stop(scope, files))
    changes = units.uninstall(files)
    for change in changes:
        _tell(session, change)
    if is_managed:
        units.take(units.steps_to_forget(scope, files))
    if not changes:
        session.output.say("no service is installed")
    for place in (*units.find_drop_ins(files), *(_kept(session) if root_folder is None else ())):
        if os.path.lexists(place):
            session.output.say(f"kept: {show_path(place)}")
            session.output.give("unit", path_fields("path", place) | {"action": "kept"})
    if root_folder is None:
        session.output.say(f"to remove the program, too:  {describe_removal()}")
    return ExitCode.OK


@service.command(
    epilog=examples(
        ("integrity service show", "the units of the system's service"),
        ("integrity service show --user", "those of your own"),
    )
)
@_user
@click.option("--web", "has_page", is_flag=True, help="Also those of the page.")
@click.option("--hub", "has_hub", is_flag=True, help="Also those of the hub.")
@_allow_repair
@click.pass_obj
def show(session: Session, is_user: bool, has_page: bool, has_hub: bool, allow_repair: bool) -> int:
    """Print the files that `install` would write."""
    from integrity.service.systemd import units
    from integrity.service.systemd.units import find_program

    _require_systems_page(is_user, has_page, has_hub)
    scope = Scope.USER if is_user else Scope.SYSTEM
    repair_in = _find_folders_to_repair(is_user) if allow_repair else []
    reads = _find_what_the_page_reads() if has_page else []
    for unit in units.make_units(
        scope,
        find_program(),
        has_page=has_page,
        has_hub=has_hub,
        page_reads=reads,
        repair_in=repair_in,
        writes=_find_written_folders(),
    ):
        text = unit.content.decode()
        session.output.tell(f"# {show_path(unit.path)}\n{text}")
        session.output.give("unit", path_fields("path", unit.path) | {"text": text})
    return ExitCode.OK


def _choose(is_user: bool, root_folder: bytes | None) -> Scope:
    """Find out whose service is meant, and refuse what can't work before anything is done."""
    if root_folder is None and not is_user and os.geteuid() != 0:
        raise ConfigError("only root can install or remove the system's service: use sudo, or --user for your own")
    if root_folder is None and is_user and os.geteuid() == 0:
        raise ConfigError("root's service is the system's: leave --user out, or run it as the user whose it is to be")
    return Scope.USER if is_user else Scope.SYSTEM


def _require_systems_page(is_user: bool, has_page: bool, has_hub: bool) -> None:
    if has_page and is_user:
        raise ConfigError(f"--web is for the system's service; start a page of your own with: {program.command('web')}")
    if has_hub and is_user:
        raise ConfigError(f"--hub is for the system's service; run one of your own with: {program.command('hub run')}")


def _find_folders_to_repair(is_user: bool) -> list[bytes]:
    """Return the folders of the configuration that the service reads."""
    from integrity.config import default_config_path, load_config

    if is_user:
        raise ConfigError("--allow-repair is for the system's service; your own may write what you may")
    roots = [root.path for root in load_config().roots]
    if not roots:
        raise ConfigError(
            f"{show_path(default_config_path())}: has no [[root]], so there is no folder to repair files in; add one,"
            " then install with --allow-repair again"
        )
    return roots


def _load_config() -> Config:
    """Return the service's configuration; the default one if it has errors, which ``_tell_recipients`` tells."""
    from integrity.config import Config, load_config

    try:
        return load_config()
    except ConfigError:
        return Config()


def _find_written_folders() -> list[bytes]:
    """Return the real folders of the catalog, of its backups, and of parity."""
    config = _load_config()
    others = [config.catalog_backup.folder, *(root.parity_folder for root in config.roots)]
    folders = [os.path.dirname(config.catalog), *(folder for folder in others if folder)]
    return list(dict.fromkeys(map(os.path.realpath, folders)))


def _require_writable(folders: list[bytes]) -> None:
    """Refuse to start a service that can't write where it must, and say what lets it."""
    from integrity.service.systemd import units

    folder = units.find_unwritable(units.find_closed(folders))
    if folder is not None:
        way = f"install -d -o integrity -g integrity -m 750 {shell_path(folder)}"
        raise ConfigError(
            f"{show_path(folder)}: the catalog, its backups or parity are to lie there, and it is missing, or belongs"
            f" to another user than the service's, `integrity`; choose a folder of its own, make it: {way}; then run"
            " this again"
        )


def _share_config() -> None:
    """Let the group of the service read a configuration that root's group may read, as the page has to."""
    from integrity.config import default_config_path

    place = default_config_path()
    with suppress(KeyError, OSError):
        seen = os.stat(place)
        if seen.st_gid == 0 and seen.st_mode & stat.S_IRGRP:
            os.chown(place, -1, grp.getgrnam(_GROUP).gr_gid)


def _find_what_the_page_reads() -> list[bytes]:
    """Return the folder of the catalog and the files that the page reads, by the service's configuration."""
    config = _load_config()
    folders = [os.path.dirname(place) for place in (config.catalog, os.path.realpath(config.catalog))]
    web = config.web
    files = [one for one in (web.token_file, web.tls_certificate, web.tls_key) if one]
    return list(dict.fromkeys([*folders, *files, *map(os.path.realpath, files)]))


def _tell(session: Session, change: UnitChange) -> None:
    words = f"{show_path(change.path)}: {change.action.value.replace('_', ' ')}"
    session.output.say(words + (f"; the edited one is now {show_path(change.aside)}" if change.aside else ""))
    fields = path_fields("path", change.path) | {"action": change.action.value}
    session.output.give("unit", fields | (path_fields("aside", change.aside) if change.aside else {}))


def _tell_recipients(session: Session) -> None:
    """Say who will be told of damage, or that nobody will be, by the configuration that the service reads."""
    from integrity.alerts.status import find_recipients
    from integrity.config import default_config_path, load_config
    from integrity.views.service import describe_recipients, make_nobody_card
    from integrity.words.card import write_terminal

    output = session.output
    try:
        recipients = find_recipients(load_config())
    except ConfigError as error:
        for line in str(error).split("\n"):
            output.warn(f"the service can't start before this is corrected: {line}")
        return
    if recipients:
        output.say(describe_recipients(recipients))
    for line in () if recipients else write_terminal(make_nobody_card(default_config_path()), output):
        output.tell(line)
    output.give("alerts", {"recipients": list(recipients)})


def _say_steps(session: Session, words: str, steps: list[SystemdStep]) -> None:
    session.output.say("\n".join([words, *(f"  {step}" for step in steps)]))
    for step in steps:
        session.output.give("next_step", {"command": str(step)})


def _kept(session: Session) -> list[bytes]:
    """List what an uninstalled service leaves behind, also where its config can't be read any more."""
    from integrity.config import default_catalog_path, default_config_path

    return [_catalog_path(session, default_catalog_path), session.config_path or default_config_path()]


def _catalog_path(session: Session, default: Callable[[], bytes]) -> bytes:
    try:
        return session.catalog_path
    except ConfigError:  # which is not this command's business
        return default()
