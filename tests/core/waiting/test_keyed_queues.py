"""Work with several keys keeps the order of each key, and waits for nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.waiting.keyed_queues import KeyedQueues


def test_work_without_a_key_in_common_begins_at_once() -> None:
    queues: KeyedQueues[int, str] = KeyedQueues()
    assert queues.add("a", (1, 2))
    assert queues.add("b", (3,))
    assert queues.has_work_for((9, 2))
    assert not queues.has_work_for((9,))


def test_work_waits_for_all_that_came_before_it() -> None:
    queues: KeyedQueues[int, str] = KeyedQueues()
    queues.add("a", (1,))
    queues.add("b", (2,))
    assert not queues.add("c", (1, 2, 2))
    assert not queues.add("d", (2,))
    assert queues.complete("a") == []
    assert queues.complete("b") == ["c"]
    assert queues.complete("c") == ["d"]
    assert queues.complete("d") == []
    assert not queues


@given(st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=20), st.randoms(use_true_random=False))
def test_all_work_is_done_in_order_of_each_key(keys: list[list[int]], random: object) -> None:
    queues: KeyedQueues[int, int] = KeyedQueues()
    ready = [number for number, own in enumerate(keys) if queues.add(number, own)]
    done: list[int] = []
    while ready:
        number = ready.pop(random.randrange(len(ready)))  # type: ignore[attr-defined]
        done.append(number)
        ready += queues.complete(number)
    assert sorted(done) == list(range(len(keys)))
    for key in range(6):
        of_key = [number for number in done if key in keys[number]]
        assert of_key == sorted(of_key)
    assert not queues
