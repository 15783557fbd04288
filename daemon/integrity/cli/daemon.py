"""``integrity daemon``: the service in the foreground."""

from __future__ import annotations

import logging
import sys

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.session import Session


@click.command()
@click.option(
    "--self-test", "is_self_test", is_flag=True,
    help="Damage a file of its own, see that it is found and told through every channel, and end.",
)  # fmt: skip
@click.pass_obj
def daemon(session: Session, is_self_test: bool) -> int:
    """
    Run the service in the foreground: watch, scan, scrub, tell.

    SIGHUP reads the configuration again, SIGTERM stops. Under systemd: integrity service install.
    """
    from integrity.service.capabilities import keep_capabilities_to_ourselves

    keep_capabilities_to_ourselves()
    if is_self_test:
        from integrity.cli.selftest import self_test

        return self_test(session)
    return _serve(session)


def _serve(session: Session) -> int:
    import os
    import socket

    from integrity.config import load_config
    from integrity.files.ioprio import be_idle
    from integrity.service.control.socket import default_socket_path
    from integrity.service.daemon import Daemon
    from integrity.service.memory import be_small
    from integrity.service.sd_notify import Notifier

    _set_up_logging(session.output.verbosity)
    be_small()
    be_idle()
    service = Daemon(
        lambda: load_config(session.config_path),
        session.catalog_path,
        default_socket_path(),
        notifier=Notifier(),
        hostname=socket.gethostname(),
    )
    service.run()
    # Threads that hang in the kernel would keep the interpreter from ending.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitCode.OK)


def _set_up_logging(verbosity: int) -> None:
    """Log for the journal, or for whoever looks at the terminal."""
    from integrity.service.journal import JournalFormatter, is_journal

    handler = logging.StreamHandler()
    is_plain = not is_journal()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s") if is_plain else JournalFormatter())
    logging.basicConfig(level=logging.DEBUG if verbosity else logging.INFO, handlers=[handler], force=True)
    logging.getLogger("apscheduler").setLevel(logging.WARNING)
