"""``integrity hub join|work|try``: what a box does for a hub, and both on one machine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, NamedTuple

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.params import PATH, SIZE, examples
from integrity.cli.session import Session
from integrity.errors import AppError, ConfigError, HubError, printable, show_path
from integrity.extras import require_hub

if TYPE_CHECKING:
    from integrity.cli.session import Session
    from integrity.config import Config
    from integrity.jobs.shards.worker import WorkerPause

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
    from integrity.files.replace_file import write_in_place_of

    try:
        write_in_place_of(path, token.encode("ascii") + b"\n", mode=0o600, folder_mode=0o755)
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
    from integrity.files.replace_file import write_in_place_of, write_new_file

    place, text = config.place, config.text.encode()
    try:
        if config.is_new:
            write_new_file(place, text, mode=0o640 if os.geteuid() == 0 else 0o600, folder_mode=0o755)
            return
        old = os.stat(place)
        write_in_place_of(place, text, mode=old.st_mode & 0o777, folder_mode=0o755, owner=(old.st_uid, old.st_gid))
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


@click.command(
    epilog=examples(
        ("integrity hub work", "read until nothing is due"),
        ("integrity hub work --keep-on --rate 50M", "go on as work becomes due, at 50 MiB/s at most"),
    )
)
@click.option("--keep-on", is_flag=True, help="Go on when nothing is due, until interrupted.")
@click.option("--rate", type=SIZE, help="Read at most this much per second, such as 50M.")
@click.option("--jobs", type=click.IntRange(min=1), metavar="N", help="Use N threads, whatever the type of disk.")
@click.pass_obj
def work(session: Session, keep_on: bool, rate: int | None, jobs: int | None) -> int:
    """
    Read shared trees for a hub.

    Works on each [[root]] that has `shared` set: asks the hub for parts of the tree that are due, scans and reads them,
    and brings the records back. It ends when nothing is due, and says when the
    next part is. The service does the same while the windows of [schedule] scrub are open. Interrupted,
    it brings back what it has done.
    """
    from integrity.cli.console import stop_on_signals
    from integrity.files.span import UNLIMITED
    from integrity.jobs.pace.throttle import Throttle
    from integrity.jobs.shards.worker import WorkerSettings, find_work_folder, make_worker
    from integrity.words.findings import finding_object
    from integrity.words.text import iso_time

    roots = session.config.shared_roots
    if not roots:
        raise ConfigError("no shared tree is configured: set `shared` in its [[root]]")
    with stop_on_signals() as stop:
        pace = Throttle(rate, stop) if rate else UNLIMITED
        settings = WorkerSettings(find_work_folder(session.config), jobs=jobs, pace=pace)
        workers = [make_worker(session.config, root, settings, finding_object, stop) for root in roots]
        told: list[str] = []
        while True:
            pauses = [worker.run() for worker in workers]
            if stop.is_set():
                break
            lines = [_describe(root.shared, pause, keep_on=keep_on) for root, pause in zip(roots, pauses, strict=True)]
            for line in lines:
                if line not in told:
                    session.output.say(line)
            told = lines
            is_work_ahead = any(one.rest is not None and not one.rest.is_surveyed for one in pauses)
            if not (keep_on or is_work_ahead) or stop.wait(min(one.wait_s for one in pauses)):
                break
        for root, pause in zip(roots, pauses, strict=True):
            rest = {} if pause.rest is None else asdict(pause.rest)
            due_at = None if pause.rest is None else iso_time(pause.rest.next_due_at)
            session.output.give("hub_work", {"tree": root.shared, "done": pause.done, **rest, "next_due_at": due_at})
    return ExitCode.INTERRUPTED if stop.is_set() else ExitCode.OK


def _describe(tree: str, pause: WorkerPause, *, keep_on: bool) -> str:
    """Return what was done on a tree, why there is nothing to do now, and what happens next."""
    from integrity.words.text import count, local_time

    begin, rest = f"{printable(tree)}: worked on {count(pause.done, 'part')}.", pause.rest
    if rest is None:
        return f"{begin} Nothing is due now."
    if not rest.is_surveyed:
        return f"{begin} Another machine lists its folders; waiting for parts to read."
    taken = f"other machines read {rest.taken:,} of {count(rest.parts, 'part')}" if rest.taken else ""
    if rest.next_due_at is None:
        return f"{begin} Nothing is left to do here: {taken or 'it has no parts'}."
    due = f"the next one is due {local_time(rest.next_due_at)}"
    next_step = "" if keep_on else " Then the service reads it, or `integrity hub work --keep-on`."
    return f"{begin} Nothing is due now: {'; '.join(filter(None, (taken, due)))}.{next_step}"


_SET = "try"
_TICK_S = 0.5
_END_S = 30.0
_TELL_NOBODY = '[alerts]\ncommand = ["true"]\n'
_HUB = """
catalog = "{home}/hub-catalog.db"
[hub_server]
listen = {listen}
"""
_BOX = """
catalog = "{home}/catalog.db"
[[root]]
path = {folder}
replica_set = "{set}"
replica_url = {folder}
[schedule]
scrub = "00:00-23:59"
[hub]
url = "http://{listen}"
token_file = "{home}/token"
report_every = "5s"
"""


class TrialBox(NamedTuple):
    """A box of the trial: its name, and its configuration file."""

    name: str
    config: str


@click.command(
    "try",
    epilog=examples(
        ("integrity hub try /srv/photos /mnt/backup/photos", "two boxes with the same photos"),
        ("integrity hub try --listen 127.0.0.1:9000 /srv/photos", "one box, at another port"),
    ),
)
@click.argument("folders", nargs=-1, required=True, type=PATH, metavar="FOLDER...")
@click.option("--listen", default="127.0.0.1:8433", metavar="ADDRESS:PORT", help="Where the hub listens.")
@click.pass_obj
def try_(session: Session, folders: Sequence[bytes], listen: str) -> int:
    """
    Try a hub on this machine, with a box for each FOLDER.

    The boxes are members of one replica set, so the hub compares the folders. Nothing is written to them, and
    nothing is kept: Ctrl-C ends hub and boxes, and removes what they recorded.
    """
    require_hub()
    from integrity.cli.console import stop_on_signals

    roots = _find_roots(folders)
    with stop_on_signals() as stop, ExitStack() as ending:
        home = ending.enter_context(tempfile.TemporaryDirectory(prefix="integrity-hub-"))
        boxes = _set_up(home, listen, roots)
        processes = {"the hub": ending.enter_context(_run(home, f"{home}/hub.toml", "hub", "run"))}
        for box, root in zip(boxes, roots, strict=True):
            processes[box.name] = ending.enter_context(_run(f"{home}/{box.name}", box.config, "-q", "daemon"))
            begin = f"{program.find_program()} --config {box.config}"
            session.output.say(f"{box.name} watches {show_path(root)}; its commands begin with:  {begin}")
        session.output.say("The boxes record their files now, and report. Ctrl-C ends the trial.")
        while not stop.wait(_TICK_S):
            _require_running(processes)
    session.output.say("The trial has ended; what it had recorded was removed.")
    return ExitCode.OK


def _find_roots(folders: Sequence[bytes]) -> list[bytes]:
    roots = [os.path.realpath(folder) for folder in folders]
    for root in roots:
        if not os.path.isdir(root):
            raise ConfigError(f"{show_path(root)}: not a folder")
        if roots.count(root) > 1:
            raise ConfigError(f"{show_path(root)}: given twice; give a folder and its copy, for example")
        try:
            root.decode()
        except UnicodeDecodeError as error:
            raise ConfigError(f"{show_path(root)}: a configuration can't name it, as it is not UTF-8") from error
    return roots


def _set_up(home: str, listen: str, roots: Sequence[bytes]) -> list[TrialBox]:
    """Write the configurations, create the database of the hub, and let the boxes report."""
    from integrity.config.sample import spell_toml
    from integrity.hub import boxes
    from integrity.hub.database import HubDatabase
    from integrity.hub.members import Grants
    from integrity.hub.migrate import migrate

    _write_configs(f"{home}/hub.toml", _HUB.format(home=home, listen=spell_toml(listen)) + _TELL_NOBODY)
    database = HubDatabase.open(f"{home}/hub.db", any_revision=True)
    try:
        migrate(database)
        made = []
        for number, root in enumerate(roots, 1):
            box = TrialBox(f"box{number}", f"{home}/box{number}/integrity.toml")
            os.mkdir(f"{home}/{box.name}", 0o700)
            with database.transaction() as c:
                grants = Grants(sets=frozenset((_SET,)))
                _write_configs(f"{home}/{box.name}/token", boxes.add_box(c, box.name, int(time.time()), grants))
            folder = spell_toml(root)
            config = _BOX.format(home=f"{home}/{box.name}", folder=folder, set=_SET, listen=listen)
            _write_configs(box.config, config + _TELL_NOBODY)
            made.append(box)
    finally:
        database.close()
    return made


def _write_configs(path: str, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


@contextmanager
def _run(home: str, config: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("INTEGRITY_")}
    environment |= {"RUNTIME_DIRECTORY": home, "STATE_DIRECTORY": home}
    with subprocess.Popen([sys.executable, "-m", "integrity", "--config", config, *words], env=environment) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _require_running(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    for name, process in processes.items():
        if process.poll() is not None:
            raise AppError(f"{name} ended with exit code {process.returncode}, so the trial ends; its message is above")
