"""``integrity web``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.session import Session
from integrity.errors import ConfigError, show_path
from integrity.extras import require_web

if TYPE_CHECKING:
    from integrity.web.passwords import PasswordStore

_SHORTEST_TOKEN = 16


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
    from integrity.web.passwords import PasswordStore

    passwords = PasswordStore(_find_state_folder())
    if sets_password:
        passwords.set_password(_ask_password())
        session.output.say("The password was set, and all log-ins ended.")
        return ExitCode.OK
    return _serve(session, passwords)


def _ask_password() -> str:
    """Ask for a password twice; where there is no terminal, read it from standard input."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    return str(click.prompt("New password", hide_input=True, confirmation_prompt="The same again"))


def _serve(session: Session, passwords: PasswordStore) -> int:
    from integrity.cli.daemon import set_up_logging
    from integrity.service.sd_notify import Notifier
    from integrity.service.startup import limit_memory_use
    from integrity.web.app import check_exposure, make_app, split_listen
    from integrity.web.server import serve
    from integrity.web.site import Site

    limit_memory_use()
    set_up_logging(session.output.verbosity)
    settings = session.config.web
    check_exposure(settings)
    site = Site(session.config_path, None if session.catalog_option is None else session.catalog_path)
    host, port = split_listen(settings.listen)
    scheme = "https" if settings.tls_certificate else "http"
    url = settings.public_url.rstrip("/") or f"{scheme}://{settings.listen}"

    def ready() -> None:
        site.collect_in_background()
        Notifier().ready()
        session.output.say(f"The page is at {url}/")
        if not passwords.is_set:
            link = f"{url}/welcome?token={passwords.make_link_token()}"
            session.output.tell(f"No password is set yet. Set one within an hour:  {link}")

    serve(
        make_app(site, passwords, _read_token(settings.token_file)),
        host,
        port,
        certificate=settings.tls_certificate,
        key=settings.tls_key,
        trusted_proxy=settings.trusted_proxy,
        ready=ready,
    )
    return ExitCode.OK


def _find_state_folder() -> bytes:
    """Return the folder of the password: the unit's, which is root's too, or one in the user's home."""
    given = os.environb.get(b"STATE_DIRECTORY")
    if given:
        return given.partition(b":")[0]
    if os.geteuid() == 0 and not os.environb.get(b"XDG_STATE_HOME"):
        return b"/var/lib/integrity-web"
    from integrity.config.places import find_user_folder

    return find_user_folder("XDG_STATE_HOME", b".local/state") + b"/integrity-web"


def _read_token(path: bytes) -> str:
    """
    Read the token of programs.

    Raises:
        ConfigError: the file can't be read, or has no token.
    """
    if not path:
        return ""
    try:
        with open(path, encoding="ascii") as file:
            token = file.readline().strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"[web] token_file: {show_path(path)}: can't be read: {error}") from error
    if len(token) < _SHORTEST_TOKEN:
        raise ConfigError(f"[web] token_file: {show_path(path)}: its first line needs {_SHORTEST_TOKEN} characters")
    return token
