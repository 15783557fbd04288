"""``integrity config check|show|sample``."""

from __future__ import annotations

import os

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.params import examples
from integrity.cli.session import Session
from integrity.errors import ConfigError, show_path
from integrity.paths import path_fields


@click.group(
    epilog=examples(
        ("integrity config sample > integrity.toml", "a file to edit, every key explained"),
        ("integrity config check", "is it right?"),
        ("integrity config show", "what is in force"),
    )
)
def config() -> None:
    """Check or show the configuration, or print a sample."""


@config.command(
    epilog=examples(
        ("integrity config check", "the file that is used"),
        ("integrity config check --config ./new.toml", "another one"),
    )
)
@click.pass_obj
def check(session: Session) -> int:
    """Say what is wrong with the configuration: all of it at once, with file, line and key."""
    _check_patterns(session)
    _check_copies(session)
    _check_channels(session)
    warnings = _warn_of_absent_roots(session)
    recipients = _find_recipients(session)
    warnings += not recipients
    place = session.config_place
    exists = os.path.exists(place)
    words = "all is well" if exists else "there is no such file, so the defaults hold"
    if exists and warnings:
        words = f"no mistake, but {warnings} warning{'' if warnings == 1 else 's'}: see above"
    session.output.say(f"{show_path(place)}: {words}")
    session.output.give("config", path_fields("path", place) | {"exists": exists, "recipients": list(recipients)})
    return ExitCode.OK


@config.command(
    epilog=examples(
        ("integrity config show", "what was chosen"),
        ("integrity config show --all", "defaults included"),
        ("integrity config show --config ./new.toml", "of another file"),
    )
)
@click.option("--all", "is_all", is_flag=True, help="Also the keys that have their defaults.")
@click.pass_obj
def show(session: Session, is_all: bool) -> int:
    """
    Print the configuration in force, as a config file: what was chosen, and with --all also the defaults.

    Secrets in URLs are hidden. --json has all of it.
    """
    from integrity.config.sample import show_choices, show_config

    text = show_config(session.config)
    if is_all:
        session.output.tell(text.rstrip("\n"))
    else:
        session.output.tell(show_choices(session.config))
        session.output.tell(f"# What is not here has its default: {program.command('config show --all')}")
    session.output.give("config", path_fields("path", session.config_place) | {"toml": text})
    return ExitCode.OK


@config.command(
    epilog=examples(
        ("integrity config sample", "to read"), ("integrity config sample > integrity.toml", "a file to edit")
    )
)
@click.pass_obj
def sample(session: Session) -> int:
    """Print a config file with every key, its default and its explanation."""
    from integrity.config.sample import sample as make_sample

    text = make_sample()
    session.output.tell(text.rstrip("\n"))
    session.output.give("config", {"toml": text})
    return ExitCode.OK


def _check_patterns(session: Session) -> None:
    """Try every pattern: what they mean is known below the configuration only."""
    from integrity.files.excludes import Excludes

    complaints: list[str] = []
    roots = (session.config.defaults, *session.config.roots)
    in_roots = (pattern for settings in roots for pattern in (*settings.exclude, *settings.rewrites_in_place))
    in_copies = (pattern for settings in session.config.copies for pattern in settings.exclude)
    for pattern in (*in_roots, *in_copies):
        try:
            Excludes((pattern,))
        except ConfigError as error:
            complaints.append(f"{show_path(session.config_place)}: {error}")
    if complaints:
        raise ConfigError("\n".join(dict.fromkeys(complaints)))


def _warn_of_absent_roots(session: Session) -> int:
    """Say which roots are not there now, a slip of the pen or a disk that is not mounted; return how many."""
    absent = [root for root in session.config.roots if root.presence != "sometimes" and not os.path.isdir(root.path)]
    for root in absent:
        session.output.warn(
            f"{show_path(root.path)}: there is no such folder now, so nothing of this [[root]] can be verified:"
            ' correct its path, or mount its disk; presence = "sometimes" if it is not always there'
        )
    return len(absent)


def _find_recipients(session: Session) -> tuple[str, ...]:
    from integrity.alerts.status import HOW_TO_TELL, NOBODY, find_recipients

    recipients = find_recipients(session.config)
    if not recipients:
        session.output.warn(f"{show_path(session.config_place)}: {NOBODY}; {HOW_TO_TELL}")
    return recipients


def _check_copies(session: Session) -> None:
    """Look whether each copy is one of something that is watched: roots may have been made by a command, too."""
    from integrity.jobs.targets import is_inside

    roots = [root.path for root in session.config.roots]
    lost = [copy for copy in session.config.copies if not any(is_inside(copy.of, root.rstrip(b"/")) for root in roots)]
    if lost and os.path.exists(session.catalog_path):
        from integrity.catalog.roots import find_roots

        with session.open_catalog(writes=False) as catalog, catalog.read() as connection:
            roots = [root.path for root in find_roots(connection)]
        lost = [copy for copy in lost if not any(is_inside(copy.of, root.rstrip(b"/")) for root in roots)]
    if lost:
        text = (
            'copy.of: "{0}" is a copy of {1}, which lies in no [[root]] and was never scanned: correct it, or add one'
        )
        place = show_path(session.config_place)
        raise ConfigError("\n".join(f"{place}: {text.format(copy.name, show_path(copy.of))}" for copy in lost))


def _check_channels(session: Session) -> None:
    """Look at what alerts are sent with, without sending any."""
    if not (session.config.mail.to or session.config.alerts.apprise):
        return  # nothing that could be wrong, and mail and web libraries take time to load
    from integrity.alerts.channels import find_problems

    problems = find_problems(session.config)
    if problems:
        raise ConfigError("\n".join(f"{show_path(session.config_place)}: {problem}" for problem in problems))
