"""``integrity web``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.page_access import (
    PAGE_UNIT,
    find_state_folder,
    open_passwords,
    print_link,
    read_token,
    set_password,
)
from integrity.cli.session import Session
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
    from integrity.service.sd_notify import Notifier
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
