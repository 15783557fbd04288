"""Have one reading thread of the engine answer for files: by the batch through the C core, or one by one."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Event
from time import monotonic

from integrity.files.read import Reader
from integrity.files.read_errors import ErrorBudget
from integrity.hashing.tasks import Failed, Result, StopSignal, Task, TaskBatch, singly
from integrity.hashing.work_queue import (
    SIDE_BY_SIDE,
    AnswerBatch,
    Batch,
    Shared,
    WorkQueue,
    can_go_beside,
)
from integrity.hashing.worker import Worker


def answer(reader: Reader, tasks: list[Task], *, is_short: bool, stop: StopSignal | None = None) -> list[Result]:
    """Have one worker answer one batch, with or without the short way, if there is one."""
    return answer_all(reader, [tasks], is_short=is_short, stop=stop)


def answer_all(
    reader: Reader, batches: list[list[Task]], *, is_short: bool, stop: StopSignal | None = None
) -> list[Result]:
    """The same of several batches."""
    small_readers = reader.small_readers() if is_short else ()
    deliveries: SimpleQueue[AnswerBatch] = SimpleQueue()
    todo: WorkQueue[Batch] = WorkQueue(1, SIDE_BY_SIDE)
    for number, tasks in enumerate(batches):
        todo.put(Batch(number, _as_batch(tasks)))
    todo.end()
    terms = ErrorBudget(), stop or Event(), lambda: 0.0, None, None, SIDE_BY_SIDE
    Worker(Shared(reader, small_readers, *terms, todo, deliveries)).work()

    delivered = [deliveries.get_nowait() for _ in range(deliveries.qsize())]
    assert [None] * len(delivered) == [delivery.error for delivery in delivered]
    assert len(batches) == sum(len(delivery.ended) for delivery in delivered)
    return [one for delivery in delivered for result in delivery.results for one in singly(result)]


def comparable(results: list[Result]) -> dict[bytes, object]:
    """Bring answers into a form that can be compared: errors have none of their own."""
    answers: dict[bytes, object] = {}
    for one in results:
        assert one.task.path not in answers
        answers[one.task.path] = (type(one.error), str(one.error)) if isinstance(one, Failed) else one
    return answers


def answer_large(reader: Reader, tasks: list[Task], *, is_beside: bool, stop: StopSignal | None = None) -> list[Result]:
    """Have one worker answer large files: beside each other through the C core, or one by one."""
    deliveries: SimpleQueue[AnswerBatch] = SimpleQueue()
    todo: WorkQueue[Batch] = WorkQueue(1, SIDE_BY_SIDE)
    for number, task in enumerate(tasks):
        if is_beside and can_go_beside(task):
            todo.put_large(Batch(None, task.as_batch()), task.size_bytes)
        else:
            todo.put(Batch(number, task.as_batch()))
    todo.end()
    terms = ErrorBudget(), stop or Event(), monotonic, None, None, SIDE_BY_SIDE
    Worker(Shared(reader, reader.small_readers() if is_beside else (), *terms, todo, deliveries)).work()

    delivered = [deliveries.get_nowait() for _ in range(deliveries.qsize())]
    assert [None] * len(delivered) == [delivery.error for delivery in delivered]
    assert len(tasks) == sum(len(delivery.ended) for delivery in delivered)
    return [one for delivery in delivered for result in delivery.results for one in singly(result)]


def _as_batch(tasks: list[Task]) -> TaskBatch:
    """Put small files together as the engine does; what it gives by itself stands alone in the list."""
    first = tasks[0]
    if len(tasks) == 1:
        return first.as_batch()
    columns = zip(*(task.as_batch().columns for task in tasks), strict=True)
    paths, sizes, wants, tags, probes, known_bad = ([value for (value,) in column] for column in columns)
    return TaskBatch(paths, sizes, wants, tags, probes, known_bad, first.block_size_bytes)
