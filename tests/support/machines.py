"""State machines of hypothesis: with a small budget and the same steps in each run, or at length and by hand."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

_SHORT = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
_LONG = settings(_SHORT, max_examples=10_000, derandomize=False, phases=[Phase.reuse, Phase.generate, Phase.shrink])


def run_short(make: Callable[[], RuleBasedStateMachine], *, examples: int, steps: int) -> None:
    """Let a few machines take the same steps in each run."""
    _run(make, settings(_SHORT, max_examples=examples, stateful_step_count=steps))


def run_long(make: Callable[[], RuleBasedStateMachine], *, steps: int) -> None:
    """Let thousands of machines take steps that nobody has seen before; for tests with the mark ``long``."""
    _run(make, settings(_LONG, stateful_step_count=steps))


def _run(make: Callable[[], RuleBasedStateMachine], how: settings) -> None:
    run_state_machine_as_test(make, settings=how)  # type: ignore[arg-type]  # it calls whatever it is given
