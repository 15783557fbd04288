"""
``integrity hub try``: a hub with a box for each folder, on this machine, to see what it does.

All that it writes lies in a temporary folder, which is removed at the end. The folders themselves are only read.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click

from integrity import program
from integrity.cli.exitcodes import ExitCode
from integrity.cli.help import examples
from integrity.cli.params import PATH
from integrity.errors import AppError, ConfigError, show_path
from integrity.extras import require_hub

if TYPE_CHECKING:
    from integrity.cli.session import Session

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
    from integrity.cli.signals import stop_on_signals

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
    """Return the real paths of the folders."""
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

    _write(f"{home}/hub.toml", _HUB.format(home=home, listen=spell_toml(listen)) + _TELL_NOBODY)
    database = HubDatabase.open(f"{home}/hub.db", any_revision=True)
    try:
        migrate(database)
        made = []
        for number, root in enumerate(roots, 1):
            box = TrialBox(f"box{number}", f"{home}/box{number}/integrity.toml")
            os.mkdir(f"{home}/{box.name}", 0o700)
            with database.transaction() as c:
                grants = Grants(sets=frozenset((_SET,)))
                _write(f"{home}/{box.name}/token", boxes.add_box(c, box.name, int(time.time()), grants))
            folder = spell_toml(root)
            config = _BOX.format(home=f"{home}/{box.name}", folder=folder, set=_SET, listen=listen)
            _write(box.config, config + _TELL_NOBODY)
            made.append(box)
    finally:
        database.close()
    return made


def _write(path: str, text: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


@contextmanager
def _run(home: str, config: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of this program, with its socket in ``home``; end it in the end."""
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
