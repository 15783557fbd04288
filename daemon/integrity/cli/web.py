"""``integrity web``, and what it shares with a hub: the folder of the password, its setting, the token of programs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.params import examples
from integrity.cli.session import Session
from integrity.errors import ConfigError, show_path
from integrity.extras import require_web

if TYPE_CHECKING:
    from integrity.cli.output import Output
    from integrity.config import Web
    from integrity.web.passwords import PasswordStore


@click.command(
    epilog=examples(("integrity web", "then open the printed link"), ("integrity web --set-password", "a new password"))
)
@click.option("--set-password", "sets_password", is_flag=True, help="Ask for a new password, store it, and exit.")
@click.pass_obj
def web(session: Session, sets_password: bool) -> int:
    """
    Serve the page for browsers.

    It listens on [web] listen, by default http://127.0.0.1:8431. The first start prints a link that sets the
    password. To run it under systemd: integrity service install --web.
    """
    require_web()
    passwords = open_passwords(PAGE_UNIT)
    if sets_password:
        set_password(passwords, session.output)
        return ExitCode.OK
    return _serve(session, passwords)


def _serve(session: Session, passwords: PasswordStore) -> int:
    from integrity.cli.daemon import set_up_logging
    from integrity.service.process import Notifier
    from integrity.service.startup import limit_memory_use
    from integrity.web.app import make_app
    from integrity.web.endpoint import find_page_endpoint
    from integrity.web.server import serve
    from integrity.web.site import Site

    limit_memory_use()
    set_up_logging(session.output.verbosity)
    settings = session.config.web
    site = Site(session.config_path, None if session.catalog_option is None else session.catalog_path)
    endpoint = find_page_endpoint(settings, _make_certificate(settings, site.hostname, session.output))
    endpoint.check_exposure()

    def ready() -> None:
        site.begin_collecting()
        Notifier().ready()
        session.output.say(f"The page is at {settings.url}/")
        print_link(passwords, settings.url, session.output)

    token = read_token(settings.token_file, "[web] token_file")
    serve(make_app(site, passwords, token), endpoint, ready=ready)
    return ExitCode.OK


def _make_certificate(settings: Web, hostname: str, output: Output) -> bytes:
    """Return the file with the certificate that the page has made for itself; empty if it is to have none."""
    if not settings.self_signed:
        return b""
    from integrity.web.certificate import ensure_certificate
    from integrity.web.endpoint import find_hosts

    own = ensure_certificate(find_state_folder(PAGE_UNIT), find_hosts(settings, hostname))
    output.say(f"Its certificate is valid until {own.ends_at:%Y-%m-%d}; SHA-256 {own.fingerprint}")
    return own.path


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
