"""One request under way for each broker, and what a request may not hold twice waits for the next."""

from kafkad.core.coordinator.outbox import AT_ONCE, Outbox


def outbox() -> Outbox[tuple[int, str]]:
    return Outbox(lambda item: item[0])


def test_what_comes_while_a_request_is_under_way_goes_with_the_next() -> None:
    box = outbox()
    box.add(1, (7, "a"))
    box.add(2, (7, "b"))
    assert box.ready() == [1, 2]
    assert box.take(1) == [(7, "a")]
    box.add(1, (8, "c"))
    box.add(1, (9, "d"))
    assert box.ready() == [2]
    box.completed(1)
    assert box.ready() == [2, 1]
    assert box.take(1) == [(8, "c"), (9, "d")]


def test_items_with_the_same_key_go_one_after_the_other() -> None:
    box = outbox()
    for item in ((7, "a"), (7, "b"), (8, "c"), (7, "d")):
        box.add(1, item)
    taken = []
    while box.ready():
        taken.append(box.take(1))
        box.completed(1)
    assert taken == [[(7, "a"), (8, "c")], [(7, "b")], [(7, "d")]]


def test_a_request_does_not_grow_without_end() -> None:
    box = outbox()
    for number in range(AT_ONCE + 1):
        box.add(1, (number, ""))
    assert len(box.take(1)) == AT_ONCE
    box.completed(1)
    assert box.take(1) == [(AT_ONCE, "")]
