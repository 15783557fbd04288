"""Ask before something is done that can't be undone."""

from __future__ import annotations

import sys

import click

from integrity.errors import ConfigError


def confirm(question: str, *, is_yes: bool) -> None:
    """
    Go on only if the user says so, on the terminal or by ``--yes``.

    Raises:
        ConfigError: there is nobody to ask.
        click.Abort: the answer was no.
    """
    if is_yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"{question} There is no terminal to ask on: say --yes if this is meant")
    click.confirm(question, abort=True, err=True)
