"""``integrity hub join``: have this box report to a hub."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.params import PATH
from integrity.cli.session import Session
from integrity.errors import AppError, ConfigError, HubError, show_path

if TYPE_CHECKING:
    from integrity.config import Config

_TOKEN_FILE = b"hub-token"


@click.command(
    epilog=examples(
        ("integrity hub join https://hub.example.org", "asks for the token that `hub add` printed"),
        ("integrity hub join https://hub.example.org < token.txt", "reads it from a file"),
        ("integrity hub join --certificate /etc/integrity/hub.pem https://hub", "a hub with a certificate of its own"),
    )
)
@click.argument("url", metavar="URL")
@click.option("--certificate", type=PATH, help="Certificate that the hub's is signed with, as PEM; stays where it is.")
@click.pass_obj
def join(session: Session, url: str, certificate: bytes | None) -> int:
    """
    Have this box report to the hub at URL.

    Asks for the token that `integrity hub add BOX` printed on the hub, and tests it. Then it is stored, [hub] is added
    to the configuration, and the service reads it.
    """
    from integrity.config.parsers import parse_hub_url

    try:
        url = parse_hub_url(url)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="URL") from error
    if not url:
        raise click.BadParameter("is empty", param_hint="URL")
    _require_free(session, url)
    given = b"" if certificate is None else os.path.abspath(certificate)
    token_file = session.config.hub.token_file or os.path.join(os.path.dirname(session.config_place), _TOKEN_FILE)
    new = None if session.config.hub.url else _add_section(session, url, token_file, given)
    token = _ask_token()
    _test(url, token, given)
    session.output.say(f"The hub at {url} accepts this box.")
    _save_token(token_file, token)
    if new is not None:
        _write(new)
    is_told = _reload_service(session)
    session.output.say(f"{show_path(session.config_place)}: {'names this hub' if new is None else '[hub] was added'}")
    if is_told:
        session.output.say("The service reports from now on; how that goes:  " + program.command("status"))
    else:
        session.output.say("The service reports from its next start or reload on: systemctl reload integrity")
    session.output.give("hub_joined", {"url": url, "is_written": new is not None, "is_service_told": is_told})
    return ExitCode.OK


def _require_free(session: Session, url: str) -> None:
    """Require that the configuration names no other hub."""
    present = session.config.hub.url
    if present and present != url:
        raise ConfigError(
            f"{show_path(session.config_place)}: this box reports to {present} already; remove [hub] there first. The"
            " new hub gets all open findings"
        )


def _ask_token() -> str:
    """Ask for the token; where there is no terminal, read it from standard input."""
    from integrity.reporting.reporter import is_token

    is_terminal = sys.stdin.isatty()
    token = str(click.prompt("Token", hide_input=True) if is_terminal else sys.stdin.readline()).strip()
    if not is_token(token):
        raise ConfigError('this is no token of a hub: it begins with "integrity-box-", and `hub add BOX` prints it')
    return token


def _test(url: str, token: str, certificate: bytes) -> None:
    """
    Have the hub check the token. Nothing changes there: a stream that does not begin is refused.

    Raises:
        HubError: it can't be reached, is no hub, or refuses the token; another machine that uses it is a reason, too.
    """
    from integrity.reporting.client import HubClient
    from integrity.reporting.protocol import FIRST_CHAIN, STREAM_BYTES, VERSION, encode_lines
    from integrity.reporting.reporter import read_machine

    stream, machine = os.urandom(STREAM_BYTES), read_machine(socket.gethostname())
    header = {"protocol": VERSION, "stream": stream.hex(), "first": 1, "chain": FIRST_CHAIN.hex()}
    client = HubClient(url, token, certificate=certificate)
    try:
        client.call("messages", encode_lines([{**header, "joining": machine.hex()}]), is_lines=True)
    except HubError as error:
        if error.code != "went_back":
            raise
    finally:
        client.close()


def _save_token(path: bytes, token: str) -> None:
    """Store the token; only its owner, and the service by its capability, can read it."""
    from integrity.files.new_file import write_new_file

    new = path + b".new"
    try:
        with suppress(FileNotFoundError):
            os.unlink(new)
        write_new_file(new, token.encode("ascii") + b"\n", mode=0o600, folder_mode=0o755)
        os.rename(new, path)
    except OSError as error:
        raise AppError(f"{show_path(path)}: the token can't be written: {error.strerror}") from error


class _NewConfig(NamedTuple):
    """The configuration with [hub] in it; ``is_new``: there is no file of it yet."""

    place: bytes
    text: str
    is_new: bool


def _add_section(session: Session, url: str, token_file: bytes, certificate: bytes) -> _NewConfig:
    """
    Add [hub] to the text of the configuration, which stays as it is otherwise. Nothing is written yet.

    Raises:
        ConfigError: the result would be no right configuration.
    """
    from integrity.config import parse_config
    from integrity.config.sample import spell_toml

    place = os.path.realpath(session.config_place)
    values = {"url": url, "token_file": token_file} | ({"certificate": certificate} if certificate else {})
    lines = [f"{key} = {spell_toml(value)}" for key, value in values.items()]
    before = _read(place)
    after = _insert(before or "", lines)
    changed: Config | None = None
    try:
        changed = parse_config(after.encode(), show_path(place))
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{show_path(token_file)}: TOML can't name this file, for its path is not UTF-8; set token_file in [hub] to"
            " another one"
        ) from error
    except ConfigError:  # the file spells [hub] in another way, such as hub = {}
        pass
    if changed is None or changed.hub.url != url or replace(changed, hub=session.config.hub) != session.config:
        text = "\n  ".join(["[hub]", *lines])
        raise ConfigError(f"{show_path(place)}: [hub] can't be added to it; add this by hand:\n  {text}")
    return _NewConfig(place, after, before is None)


def _read(place: bytes) -> str | None:
    try:
        with open(place, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"can't read the config file {show_path(place)}: {error.strerror}") from error


def _insert(text: str, lines: list[str]) -> str:
    """Put the lines behind the header of [hub] if there is one, else at the end with one."""
    rows = text.splitlines()
    at = next((number for number, row in enumerate(rows, 1) if row.split("#")[0].strip() == "[hub]"), None)
    if at is None:
        rows += [*([""] if rows and rows[-1].strip() else []), "[hub]"]
        at = len(rows)
    return "\n".join([*rows[:at], *lines, *rows[at:], ""])


def _write(config: _NewConfig) -> None:
    """Write the configuration as a whole; owner and mode stay."""
    from integrity.files.new_file import write_new_file

    place, text = config.place, config.text.encode()
    new = place + b".new"
    try:
        if config.is_new:
            write_new_file(place, text, mode=0o640 if os.geteuid() == 0 else 0o600, folder_mode=0o755)
            return
        old = os.stat(place)
        with suppress(FileNotFoundError):
            os.unlink(new)
        write_new_file(new, text, mode=old.st_mode & 0o777, folder_mode=0o755)
        os.chown(new, old.st_uid, old.st_gid)
        os.rename(new, place)
    except OSError as error:
        raise AppError(f"{show_path(place)}: can't be written: {error.strerror}; the token is stored") from error


def _reload_service(session: Session) -> bool:
    """Have the service read its configuration; return whether there is one that could be told."""
    from integrity.service.control.socket import find_daemon_of

    try:
        service = find_daemon_of(os.path.realpath(session.catalog_path))
        if service is None:
            return False
        with service:
            pid = service.pid
        if not pid:
            return False  # of another container
        os.kill(pid, signal.SIGHUP)
    except (AppError, OSError):
        return False
    return True
