"""The tokens in memory: right at any moment, and read for any number of strangers at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

import anyio
import pytest

from integrity.errors import HubDatabaseAway
from integrity.hub.admission import TokenTable
from integrity.hub.boxes import TOKEN_PREFIX, Box, hash_token
from support.clock import Clock


class Reader:
    """A database whose readings take as long as a test wants."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.boxes: dict[bytes, Box] = {}
        self.readings = 0
        self.slept: list[float] = []
        self.may_end = anyio.Event()
        self.trouble = ""
        self.table = TokenTable(self.read, self.sleep, self.clock)

    def add(self, name: str) -> str:
        token = TOKEN_PREFIX + name
        self.boxes[hash_token(token)] = Box(len(self.boxes), name, None)
        return token

    async def read(self) -> dict[bytes, Box]:
        self.readings += 1
        found = dict(self.boxes)  # as of the moment at which it begins
        await self.may_end.wait()
        if self.trouble:
            raise HubDatabaseAway(self.trouble)
        return found

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.now += seconds


def run(test: Callable[[Reader], Coroutine[None, None, None]]) -> None:
    async def start() -> None:
        await test(Reader())

    anyio.run(start)


def test_strangers_share_a_reading_and_known_boxes_wait_for_none() -> None:
    """Sixty guesses cost two readings at most, one after the other; meanwhile a known token is found at once."""

    async def guess(reader: Reader) -> None:
        token = reader.add("nas")
        reader.may_end.set()
        assert (found := await reader.table.find(token)) is not None
        assert "nas" == found.name
        reader.may_end = anyio.Event()
        async with anyio.create_task_group() as group:
            for number in range(60):
                group.start_soon(reader.table.find, f"{TOKEN_PREFIX}{number}")
            await anyio.wait_all_tasks_blocked()
            assert await reader.table.find(token) == found
            assert 2 == reader.readings
            reader.may_end.set()

        assert 3 >= reader.readings
        assert 0 < sum(reader.slept) <= 0.2

    run(guess)


def test_box_that_is_added_while_tokens_are_read_is_found() -> None:
    """The reading that runs can't have it; the next one has."""

    async def add(reader: Reader) -> None:
        found: list[Box | None] = []

        async def look(token: str) -> None:
            found.append(await reader.table.find(token))

        async with anyio.create_task_group() as group:
            group.start_soon(look, f"{TOKEN_PREFIX}wrong")
            await anyio.wait_all_tasks_blocked()
            group.start_soon(look, reader.add("new"))
            await anyio.wait_all_tasks_blocked()
            reader.may_end.set()

        assert [None, "new"] == [None if one is None else one.name for one in found]

    run(add)


def test_nobody_is_unknown_while_the_database_is_away() -> None:
    """All that wait for the reading learn that it failed; the next one is tried anew. A known token needs none."""

    async def fail(reader: Reader) -> None:
        token = reader.add("nas")
        reader.may_end.set()
        await reader.table.find(token)
        reader.trouble = "away"
        with pytest.raises(HubDatabaseAway, match="away"):
            await reader.table.find(f"{TOKEN_PREFIX}wrong")
        assert await reader.table.find(token) is not None
        reader.trouble = ""
        assert await reader.table.find(f"{TOKEN_PREFIX}wrong") is None
        del reader.boxes[hash_token(token)]
        reader.table.forget(token)
        assert await reader.table.find(token) is None

    run(fail)


def test_text_that_is_no_token_costs_no_reading() -> None:
    """Nothing at all, or the word of another program."""

    async def look(reader: Reader) -> None:
        assert [None, None] == [await reader.table.find(text) for text in ("", "Basic abc")]
        assert 0 == reader.readings

    run(look)
