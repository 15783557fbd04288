"""``integrity alert test``."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from integrity.cli.exitcodes import ExitCode
from integrity.cli.params import examples
from integrity.cli.session import Session
from integrity.errors import CatalogError, CatalogMissing, ConfigError, printable


@click.group(
    epilog=examples(
        ("integrity alert test", "does mail arrive?"), ("integrity config sample", "how to set up mail: see [mail]")
    )
)
def alert() -> None:
    """Send a test alert through every channel."""


@alert.command(
    epilog=examples(("integrity alert test", "does mail arrive?"), ("integrity alert test --json", "for scripts"))
)
@click.pass_obj
def test(session: Session) -> int:
    """
    Send a test alert through every channel, and report the results.

    The page for browsers shows when each channel last worked, tests included.

    Exits with 0 if all channels took it, 2 if none is configured, 3 if one failed.
    """
    from integrity.alerts.channels import describe_no_channels, send_test

    results = send_test(session.config)
    if not results:
        raise ConfigError(describe_no_channels())
    for name, error in results:
        words = "sent" if error is None else f"FAILED: {printable(error)}"
        (session.output.say if error is None else session.output.tell)(f"{printable(name)}: {words}")
        session.output.give("alert", {"channel": name, "sent": error is None, "error": error})
    _note(session, results)
    return ExitCode.OK if all(error is None for _, error in results) else ExitCode.INCOMPLETE


def _note(session: Session, results: Sequence[tuple[str, str | None]]) -> None:
    """Record the results in the catalog; before there is one, a test needs none."""
    from integrity.catalog.outbox import note_tests

    try:
        with session.open_catalog(writes=True) as catalog, catalog.transaction() as connection:
            note_tests(connection, results, int(time.time()))
    except CatalogMissing:
        return
    except (CatalogError, ConfigError) as error:
        session.output.say(f"the results were not recorded for the page: {error}")
