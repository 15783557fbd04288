"""What the commands that serve pages share: the folder of the password, its setting, and the token of programs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from integrity.errors import ConfigError, show_path

if TYPE_CHECKING:
    from integrity.cli.output import Output
    from integrity.web.passwords import PasswordStore

PAGE_UNIT = "integrity-web"
_SHORTEST_TOKEN = 16


def open_passwords(unit: str) -> PasswordStore:
    """
    Return the password of the pages of a unit, such as ``integrity-web``.

    Raises:
        ConfigError: its file is damaged, or can't be read.
    """
    from integrity.web.passwords import PasswordStore

    return PasswordStore(find_state_folder(unit))


def set_password(passwords: PasswordStore, output: Output) -> None:
    """
    Ask for a new password twice, and store it; where there is no terminal, read it from standard input.

    Raises:
        ConfigError: it is too short, or can't be stored.
    """
    if sys.stdin.isatty():
        password = str(click.prompt("New password", hide_input=True, confirmation_prompt="The same again"))
    else:
        password = sys.stdin.readline().rstrip("\n")
    passwords.set_password(password)
    output.say("The password was set, and all log-ins ended.")


def print_link(passwords: PasswordStore, url: str, output: Output) -> None:
    """Print the one-time link that sets the password of the pages at a URL, if there is none yet."""
    if not passwords.is_set:
        link = f"{url}/welcome?token={passwords.make_link_token()}"
        output.tell(f"No password is set yet. Set one within an hour:  {link}")


def read_token(path: bytes, key: str) -> str:
    """
    Read the token of programs; empty if there is no file.

    Args:
        path: of the file; empty: none.
        key: of the configuration, for messages.

    Raises:
        ConfigError: the file can't be read, or has no token.
    """
    if not path:
        return ""
    try:
        with open(path, encoding="ascii") as file:
            token = file.readline().strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{key}: {show_path(path)}: can't be read: {error}") from error
    if len(token) < _SHORTEST_TOKEN:
        raise ConfigError(f"{key}: {show_path(path)}: its first line needs {_SHORTEST_TOKEN} characters")
    return token


def find_state_folder(unit: str) -> bytes:
    """Return the folder of the password: the unit's, which is root's too, or one in the user's home."""
    given = os.environb.get(b"STATE_DIRECTORY")
    if given:
        return given.partition(b":")[0]
    name = unit.encode()
    if os.geteuid() == 0 and not os.environb.get(b"XDG_STATE_HOME"):
        return b"/var/lib/" + name
    from integrity.config.places import find_user_folder

    return find_user_folder("XDG_STATE_HOME", b".local/state") + b"/" + name
