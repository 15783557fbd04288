"""How reports to the hub fare, as the catalog has it. Read-only."""

from typing import TYPE_CHECKING, NamedTuple

from integrity.catalog.outbox import LASTING_FAILURE_S

if TYPE_CHECKING:
    from integrity.catalog.connection import Connection
    from integrity.config import Config


class HubStatus(NamedTuple):
    """
    How reports to the hub fare.

    Attributes:
        url: of the hub.
        complete_at: when it last had everything, seconds UTC; a day old at most while nothing happens. None: never.
        failing_since: when the first report failed since; None: none did.
        last_error: why; None: none failed.
        waiting: findings, runs, and actions that are not reported.
    """

    url: str
    complete_at: int | None
    failing_since: int | None
    last_error: str | None
    waiting: int

    def is_silent(self, now: int) -> bool:
        """Return whether reports have failed for longer than an hour."""
        return self.failing_since is not None and now - self.failing_since > LASTING_FAILURE_S


def find_hub_status(c: "Connection", config: "Config") -> HubStatus | None:
    """Return how reports to the hub fare; None if none is configured."""
    if not config.hub.url:
        return None
    from integrity.catalog import report_queue  # here, for few report to a hub

    state = report_queue.load_state(c)
    if state is None or state.url != config.hub.url:
        return HubStatus(config.hub.url, None, None, None, report_queue.count_waiting(c))
    return HubStatus(state.url, state.complete_at, state.failing_since, state.last_error, report_queue.count_waiting(c))
