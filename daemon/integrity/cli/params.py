"""
The kinds of values that options take, the global options, and what help says besides.

I1  The global options stand before the command, where help lists them, or behind it. A command that has an option of
    the same name keeps its own; the global one then stands before the command.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from datetime import time as clock_time
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from integrity.cli.session import Session
from integrity.units import parse_duration, parse_share, parse_size

T = TypeVar("T", int, float)

# Click hands over what the system did, so undecodable bytes of a name survive (R10).
# What may not be read is told by whoever tries: that is no mistake in the command.
PATH = click.Path(path_type=bytes, readable=False)


class _Amount(click.ParamType[T]):
    """A value as the configuration writes it: a size such as 50M, a duration such as 10d, a share such as 5%."""

    def __init__(self, name: str, parse: Callable[[str], T], kind: type[T], *, may_be_nothing: bool = False) -> None:
        self.name = name
        self._parse: Callable[[str], T] = parse
        self._kind: type[T] = kind
        self._may_be_nothing = may_be_nothing

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> T:
        try:
            amount = value if isinstance(value, self._kind) else self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return amount if amount > 0 or self._may_be_nothing else self.fail("must be more than nothing", param, ctx)


class _Percent(click.FloatRange):
    """A share of something: more than nothing, and not more than all of it."""

    def __init__(self) -> None:
        super().__init__(0, 100, min_open=True)

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse it; ``nan`` is a number to Python, and neither below nor above any other."""
        percent = super().convert(value, param, ctx)
        return self.fail(f"{value} is not a number.", param, ctx) if math.isnan(percent) else percent


class _AlgorithmWord(click.ParamType[str]):
    """The name of an algorithm, in any usual spelling."""

    name = "NAME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Accept it if it means an algorithm that digests can be of, or list those."""
        from integrity.hashing.algorithms import CHOICES, find_by_word

        if not set(CHOICES) & set(find_by_word(str(value))):
            self.fail(f"must be one of {', '.join(one.name for one in CHOICES)}", param, ctx)
        return str(value)


ALGORITHM = _AlgorithmWord()


class _FindingNumber(click.IntRange):
    """The number of a finding."""

    name = "NUMBER"

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            return self.fail(f"'{value}' is not a finding number; `findings` lists them", param, ctx)


class _Moment(click.ParamType[int]):
    """A date, a day by name, or how far from now; in seconds UTC."""

    name = "DATE"

    def __init__(self, *, is_future: bool) -> None:
        self._sign = 1 if is_future else -1
        self._days = {"tomorrow": 1} if is_future else {"today": 0, "yesterday": -1}

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse an ISO date (local time unless it says otherwise) or a duration."""
        if isinstance(value, int):
            return value
        if str(value) in self._days:
            day = date.today() + timedelta(days=self._days[str(value)])
            return int(datetime.combine(day, clock_time()).timestamp())
        try:
            return int(datetime.fromisoformat(str(value)).timestamp())
        except ValueError:
            pass  # then it is a duration, or neither
        try:
            return int(time.time()) + self._sign * parse_duration(str(value))
        except ValueError:
            example = "10d" if self._sign > 0 else "2w"
            days = ", ".join(self._days)
            self.fail(
                f'must be a date such as 2026-11-30, {days}, or a duration such as {example}, not "{value}"', param, ctx
            )


SIZE = _Amount("SIZE", parse_size, int)
DURATION = _Amount("DURATION", parse_duration, int, may_be_nothing=True)
PERCENT = _Percent()
FINDING_NUMBER = _FindingNumber()
PAST = _Moment(is_future=False)
FUTURE = _Moment(is_future=True)
SHARE = _Amount("SHARE", parse_share, float)


_ELSEWHERE = "Options of all commands, such as --json and -q: integrity --help"

TASKS = (
    ("Watch a folder or a new disk", "integrity scan FOLDER"),
    ("Is it running? Is all well?", "integrity status"),
    ("What was found?", "integrity findings"),
    ("How bad is it, and what to do?", "integrity explain FILE"),
    ("When was a file last checked?", "integrity explain FILE"),
    ("Move to a new disk or NAS", "integrity root rebind --help"),
    ("Stop it, for a while or for good", "integrity service --help"),
)
"""The questions of a new user, and what answers them."""


def find_examples(epilog: str | None) -> list[str]:
    lines = (line for line in (epilog or "").split("\n") if line.startswith("  "))
    return [line.strip().partition("  ")[0] for line in lines]


def examples(*lines: tuple[str, str]) -> str:
    """Return the end of a command's help: each line is a command that can be typed, and what it does."""
    width = max(len(command) for command, _ in lines)
    shown = (f"  {command:<{width}}  {effect}".rstrip() for command, effect in lines)
    return "\n".join(["\b", "Examples:", *shown, "", _ELSEWHERE])


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
