"""
``integrity setup``: look, propose, ask, test, write the configuration, and start the service.

I1  Nothing is written before the last question is answered.
I2  A configuration that is there is never replaced: the difference is shown, and whoever is asked may save the proposal
    beside it.
"""

from __future__ import annotations

from typing import Any

import click

from integrity.cli.params import DURATION, PATH, examples
from integrity.cli.session import Session


@click.command(
    epilog=examples(
        ("integrity setup", "answer some questions"),
        ("integrity setup --yes --root /srv/photos --mail-to root", "ask nothing"),
    )
)
@click.option(
    "--yes", "is_yes", is_flag=True, help="Ask nothing: take the default answers, and those given as options."
)
@click.option("--root", "roots", type=PATH, multiple=True, metavar="FOLDER", help="Watch FOLDER; may be repeated.")
@click.option(
    "--archive", "archives", type=PATH, multiple=True, metavar="FOLDER",
    help="Treat the files of FOLDER, one of the watched, as never changing; may be repeated. `none`: no folder.",
)  # fmt: skip
@click.option(
    "--copy", "copies", type=(PATH, PATH), multiple=True, metavar="FOLDER PLACE",
    help="Compare FOLDER with its backup in PLACE, a path or URL; may be repeated.",
)  # fmt: skip
@click.option("--no-copies", is_flag=True, help="Compare with no backup.")
@click.option("--window", "windows", metavar="TIMES", help='When to verify, such as "01:00-06:00".')
@click.option("--verify-every", "verify_every_s", type=DURATION, help="How often to verify every file.")
@click.option(
    "--mail-to", multiple=True, metavar="ADDRESS", help="Send alerts there; may be repeated. `none`: no mail."
)
@click.option(
    "--mail-server", metavar="URL", help="Send mail through submission://USER@HOST, smtps://USER@HOST, or smtp://HOST."
)
@click.option(
    "--mail-password-file", type=click.Path(path_type=bytes, exists=True, dir_okay=False), metavar="FILE",
    help="File with the password for the mail server.",
)  # fmt: skip
@click.option(
    "--push", multiple=True, metavar="URL",
    help="Send alerts to a phone, too: ntfy://TOPIC, pover://..., tgram://...; may be repeated. `none`: to no phone.",
)  # fmt: skip
@click.option(
    "--page", type=click.Choice(["none", "local", "lan"]),
    help="Install the page for browsers: on this machine only, or encrypted in the network.",
)  # fmt: skip
@click.option(
    "--page-actions", type=click.Choice(["look", "decide", "repair"]),
    help="What may be done on the page; repair lets the service write in the watched folders.",
)  # fmt: skip
@click.option("--no-test", is_flag=True, help="Don't test whether damage is found and mail is accepted.")
@click.option("--no-service", is_flag=True, help="Don't install and start the service.")
@click.pass_obj
def setup(session: Session, /, is_yes: bool, no_test: bool, no_service: bool, **given: Any) -> int:
    """
    Set up the service: find your disks and backups, ask a few questions, test, and start it.

    Nothing is changed before the last question; an existing configuration is never replaced. Without a terminal give
    --yes, which takes the proposed answers where no option gives another.
    """
    from integrity.cli.setup_finish import run_setup
    from integrity.cli.setup_questions import Asker, Given, interrupting_signals, require_terminal

    if not is_yes:
        require_terminal(is_json=session.output.is_json)
    asker = Asker(session.output, asks=not is_yes)
    with interrupting_signals():
        return run_setup(session, asker, Given(**given), tests=not no_test, installs=not no_service)
