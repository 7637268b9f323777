"""Which requests may take memory while others wait for it."""

from kafkad.core.waiting.memory_queue import MemoryQueue


def test_anybody_takes_room_when_nobody_waits() -> None:
    queue: MemoryQueue[str] = MemoryQueue()
    assert queue.may_take("a", 10**9)
    queue.granted("a", 10**9)
    assert queue.waiting == {}


def test_first_in_queue_goes_on_whatever_its_size() -> None:
    queue: MemoryQueue[str] = MemoryQueue()
    assert queue.join("first", 100)
    assert queue.join("second", 50)
    assert queue.may_take("first", 100)
    queue.granted("first", 100)
    assert list(queue.waiting) == ["second"]


def test_smaller_ones_pass_by_until_they_have_taken_as_much() -> None:
    queue: MemoryQueue[str] = MemoryQueue()
    queue.join("large", 100)
    for _ in range(4):
        assert queue.may_take("small", 25)
        queue.granted("small", 25)
    assert not queue.may_take("small", 25)
    assert not queue.may_take("other", 1)
    assert queue.may_take("large", 100)


def test_next_in_queue_is_passed_by_anew() -> None:
    queue: MemoryQueue[str] = MemoryQueue()
    queue.join("large", 100)
    queue.join("next", 40)
    queue.granted("small", 100)
    queue.leave("large")
    assert queue.may_take("small", 40)
    assert not queue.may_take("small", 41)


def test_who_passes_by_leaves_the_queue() -> None:
    queue: MemoryQueue[str] = MemoryQueue()
    queue.join("large", 100)
    queue.join("small", 10)
    queue.granted("small", 10)
    assert list(queue.waiting) == ["large"]
    assert not queue.may_take("small", 91)


def test_who_waits_already_keeps_its_place() -> None:
    queue: MemoryQueue[str] = MemoryQueue()
    queue.join("a", 1)
    queue.join("b", 1)
    assert not queue.join("a", 5)
    assert list(queue.waiting.items()) == [("a", 5), ("b", 1)]
