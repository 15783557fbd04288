"""
The options of every command: before the command, where help lists them, or behind it.

I1  A command that has an option of the same name keeps its own; the global one then stands before the command.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import click
from click.core import ParameterSource

from integrity.cli.session import Session

_FILE = click.Path(path_type=bytes, readable=False)
_OPTIONS: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("--config", "config_path"), {"type": _FILE, "metavar": "FILE", "help": "Configuration file to use."}),
    (("--catalog",), {"type": _FILE, "metavar": "PATH|URL", "help": "Catalog to use."}),
    (("-v", "--verbose"), {"count": True, "help": "Print more; may be repeated."}),
    (("-q", "--quiet"), {"is_flag": True, "help": "Print nothing if nothing is wrong."}),
    (("--json", "is_json"), {"is_flag": True, "help": "Print JSON, one object per line."}),
    (
        ("--color",),
        {"type": click.Choice(["auto", "always", "never"]), "default": "auto", "help": "When to use colors."},
    ),
)


def make_options(*, is_behind: bool = False) -> list[click.Parameter]:
    """Make the options of the program, or those of a command behind which they may stand, too."""
    return [_make_option(names, attributes, is_behind=is_behind) for names, attributes in _OPTIONS]


def _make_option(names: tuple[str, ...], attributes: dict[str, Any], *, is_behind: bool) -> click.Option:
    variable = None if is_behind else _variable(next(name for name in names if name.startswith("--")))
    # Eager: they hold for what another option of the command prints, too.
    return click.Option(
        names, **attributes, hidden=is_behind, envvar=variable, callback=_take, expose_value=False, is_eager=True
    )


def _variable(option: str) -> str:
    return f"INTEGRITY_{option.removeprefix('--').upper()}"


def accept_behind(command: click.Command) -> None:
    """Let the global options stand behind a command and its subcommands. Doing it again changes nothing."""
    taken = {name for parameter in command.params for name in parameter.opts}
    command.params += [one for one in make_options(is_behind=True) if taken.isdisjoint(one.opts)]
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            accept_behind(inner)


def _take(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Pass an option on to the session if it was given."""
    assert option.name is not None
    source = context.get_parameter_source(option.name)
    if context.resilient_parsing or source in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None):
        return
    session = context.find_object(Session)
    assert session is not None
    try:
        session.take_option(option.name, value, is_typed=source is ParameterSource.COMMANDLINE)
    except ValueError as error:
        raise click.UsageError(f"{option.opts[0]}: {error}", context) from error
    if context.parent is not None:
        session.set_up_output()


def list_repeated(session: Session) -> Iterable[str | bytes]:
    """
    Return the options that advised commands repeat: whatever a shell without our variables would not use by itself.

    A command is often copied into another shell than it was printed in, or mailed. XDG_* is no reason: all shells of a
    user have it, and so have all commands in a container.
    """
    from integrity.config import default_catalog_path, default_config_path

    given = (
        ("--config", session.config_path, default_config_path()),
        ("--catalog", session.catalog_option, default_catalog_path()),
    )
    for option, value, default in given:
        if value is None:
            continue
        place = value if b"://" in value else os.path.abspath(value)
        if place != default or _variable(option) in os.environ:
            yield from (option, place)
