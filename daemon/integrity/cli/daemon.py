"""
``integrity daemon``: the service in the foreground.

``integrity daemon --self-test``: print the steps of the self-test as they are taken.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.output import Output
from integrity.cli.params import examples
from integrity.cli.session import Session
from integrity.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integrity.service.selftest import SelfTestStep


@click.command(
    epilog=examples(
        ("integrity daemon", "in the foreground, until Ctrl-C"),
        ("integrity daemon --self-test", "is damage found, and does mail arrive?"),
        ("integrity service install --now", "have systemd run it"),
    )
)
@click.option(
    "--self-test", "is_self_test", is_flag=True,
    help="Damage a test file, check that the damage is found and reported through every channel, then exit.",
)  # fmt: skip
@click.pass_obj
def daemon(session: Session, is_self_test: bool) -> int:
    """
    Run the service in the foreground.

    It watches, scans, scrubs, and sends alerts. SIGHUP reloads the configuration, SIGTERM stops. To run it under
    systemd: integrity service install.
    """
    from integrity.service.startup import drop_inheritable_capabilities

    drop_inheritable_capabilities()
    if is_self_test:
        return self_test(session)
    return _serve(session)


def _serve(session: Session) -> int:
    import os
    import socket

    from integrity.config import load_config
    from integrity.files.system_load import be_idle
    from integrity.service.control.socket import default_socket_path
    from integrity.service.daemon import Daemon
    from integrity.service.process import Notifier
    from integrity.service.startup import limit_memory_use
    from integrity.views.repair import write_plan
    from integrity.views.sentence import HubWords
    from integrity.words.findings import finding_object

    set_up_logging(session.output.verbosity)
    limit_memory_use()
    be_idle()
    service = Daemon(
        lambda: load_config(session.config_path),
        session.catalog_path,
        default_socket_path(),
        notifier=Notifier(),
        hostname=socket.gethostname(),
        write_plan=write_plan,
        words=HubWords(),
        write_finding=finding_object,
    )
    service.run()
    # Threads that hang in the kernel would keep the interpreter from ending.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(ExitCode.OK)


def set_up_logging(verbosity: int) -> None:
    """Log for the journal, or for whoever looks at the terminal."""
    from integrity.service.process import JournalFormatter, is_journal

    handler = logging.StreamHandler()
    is_plain = not is_journal()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s") if is_plain else JournalFormatter())
    logging.basicConfig(level=logging.DEBUG if verbosity else logging.INFO, handlers=[handler], force=True)
    for library in ("alembic", "uvicorn"):
        logging.getLogger(library).setLevel(logging.WARNING)


def self_test(session: Session) -> ExitCode:
    """
    Take the self-test and print what was seen.

    Raises:
        ConfigError: no alerts are configured, or there is no folder to write into.
    """
    import socket
    from contextlib import closing

    from integrity.cli.console import stop_on_signals
    from integrity.service.selftest import run_self_test

    output = session.output
    steps: list[SelfTestStep] = []
    with stop_on_signals() as stop:
        with closing(run_self_test(session.config, hostname=socket.gethostname(), stop=stop)) as taken:
            for step in taken:
                _print_step(step, output)
                steps.append(step)
        code = ExitCode.INTERRUPTED if stop.is_set() else code_for(steps)
    _print_end(steps, code, output)
    return code


def _print_step(step: SelfTestStep, output: Output) -> None:
    show, mark = (output.say, "ok      ") if step.is_ok else (output.tell, output.style("FAILED  ", "red"))
    place = f"{printable(step.channel)}: " if step.channel else ""
    show(f"{mark}{step.stage.value:<8}{place}{printable(step.seen)}")
    output.give(
        "self_test_step",
        {"stage": step.stage.value, "is_ok": step.is_ok, "seen": step.seen, "channel": step.channel},
    )


def code_for(steps: Sequence[SelfTestStep]) -> ExitCode:
    """Tell what the steps mean: damage that is not found is worse than a mail that does not leave."""
    from integrity.service.selftest import Stage

    failed = {step.stage for step in steps if not step.is_ok}
    if failed - {Stage.ALERT} or all(step.stage is not Stage.ALERT for step in steps):
        return ExitCode.PROBLEM
    return ExitCode.INCOMPLETE if failed else ExitCode.OK


def _print_end(steps: Sequence[SelfTestStep], code: ExitCode, output: Output) -> None:
    words = {
        ExitCode.OK: "self-test: all is well: damage is found, and told through every channel",
        ExitCode.PROBLEM: "self-test: FAILED: damage is not found here; do not rely on this installation",
        ExitCode.INCOMPLETE: "self-test: FAILED: damage is found, and not told through every channel",
        ExitCode.INTERRUPTED: "self-test: interrupted: nothing is proved",
    }
    (output.say if code is ExitCode.OK else output.tell)(words[code])
    output.give("self_test", {"is_ok": code is ExitCode.OK, "steps": len(steps), "exit_code": code.value})
