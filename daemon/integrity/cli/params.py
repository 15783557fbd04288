"""The kinds of values that options and arguments take."""

from __future__ import annotations

import math
import time
from datetime import date, datetime, timedelta
from datetime import time as clock_time
from typing import Any

import click

from integrity.config.units import parse_duration, parse_share, parse_size

# Click hands over what the system did, so undecodable bytes of a name survive (R10).
# What may not be read is told by whoever tries: that is no mistake in the command.
PATH = click.Path(path_type=bytes, readable=False)


class _Size(click.ParamType[int]):
    """A size such as 50M."""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse it, or say what one looks like."""
        try:
            size = value if isinstance(value, int) else parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return size if size > 0 else self.fail("must be more than nothing", param, ctx)


class _Duration(click.ParamType[int]):
    """A duration such as 10d, in seconds."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse it, or say what one looks like."""
        try:
            return value if isinstance(value, int) else parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class _Percent(click.FloatRange):
    """A share of something: more than nothing, and not more than all of it."""

    def __init__(self) -> None:
        super().__init__(0, 100, min_open=True)

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse it; ``nan`` is a number to Python, and neither below nor above any other."""
        percent = super().convert(value, param, ctx)
        return self.fail(f"{value} is not a number.", param, ctx) if math.isnan(percent) else percent


class _Share(click.ParamType[float]):
    """A share such as 5%."""

    name = "SHARE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse it, or say what one looks like."""
        try:
            share = value if isinstance(value, float) else parse_share(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return share if share > 0 else self.fail("must be more than nothing", param, ctx)


class _AlgorithmWord(click.ParamType[str]):
    """The name of an algorithm, in any usual spelling."""

    name = "NAME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Accept it if it means an algorithm that digests can be of, or list those."""
        from integrity.hashing.algorithms import CHOICES, find_by_word

        if not set(CHOICES) & set(find_by_word(str(value))):
            self.fail(f"must be one of {', '.join(one.name for one in CHOICES)}", param, ctx)
        return str(value)


ALGORITHM = _AlgorithmWord()


class _FindingNumber(click.IntRange):
    """The number of a finding."""

    name = "NUMBER"

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse it, or say where the numbers are."""
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            return self.fail(f"'{value}' is not a finding number; `findings` lists them", param, ctx)


class _Moment(click.ParamType[int]):
    """A date, a day by name, or how far from now; in seconds UTC."""

    name = "DATE"

    def __init__(self, *, is_future: bool) -> None:
        self._sign = 1 if is_future else -1
        self._days = {"tomorrow": 1} if is_future else {"today": 0, "yesterday": -1}

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse an ISO date (local time unless it says otherwise) or a duration."""
        if isinstance(value, int):
            return value
        if str(value) in self._days:
            day = date.today() + timedelta(days=self._days[str(value)])
            return int(datetime.combine(day, clock_time()).timestamp())
        try:
            return int(datetime.fromisoformat(str(value)).timestamp())
        except ValueError:
            pass  # then it is a duration, or neither
        try:
            return int(time.time()) + self._sign * parse_duration(str(value))
        except ValueError:
            example = "10d" if self._sign > 0 else "2w"
            days = ", ".join(self._days)
            self.fail(
                f'must be a date such as 2026-11-30, {days}, or a duration such as {example}, not "{value}"', param, ctx
            )


SIZE = _Size()
DURATION = _Duration()
PERCENT = _Percent()
FINDING_NUMBER = _FindingNumber()
PAST = _Moment(is_future=False)
FUTURE = _Moment(is_future=True)
SHARE = _Share()
