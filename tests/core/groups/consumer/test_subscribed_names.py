"""What members subscribe to is kept once, looked at once, and bounded."""

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.consumer import subscribed_names
from kafkad.core.groups.consumer.subscribed_names import Names, SubscribedNames
from tests.core.groups.consumer_bed import Client, ConsumerBed, settle
from tests.core.groups.offsets_bed import ORDERS

FEW: Names = ("orders", "payments")


def again(names: Names) -> Names:
    """As another member would send them: equal, and nothing shared."""
    return tuple("".join(list(name)) for name in names)


def test_equal_lists_are_one_list_until_their_last_member_is_gone() -> None:
    subscribed = SubscribedNames()
    kept = subscribed.add(FEW)
    assert subscribed.add(again(FEW)) is kept
    taken = subscribed.bytes
    assert list(subscribed) == [FEW] and subscribed.bytes_with(again(FEW)) == taken > 0
    subscribed.remove(again(FEW))
    assert list(subscribed) == [FEW]
    subscribed.remove(FEW)
    assert list(subscribed) == [] and subscribed.bytes == 0


def test_a_copy_is_changed_alone() -> None:
    subscribed = SubscribedNames()
    subscribed.add(FEW)
    other = subscribed.copy()
    other.add(("invoices",))
    other.remove(FEW)
    assert list(subscribed) == [FEW] and list(other) == [("invoices",)]


def test_members_of_a_group_share_what_they_name() -> None:
    bed = ConsumerBed()
    clients = [Client(bed, f"m{number}", *again(FEW)) for number in range(5)]
    settle(*clients)
    assert len({id(member.topics) for member in bed.consumers.members.values()}) == 1
    for client in clients[:2]:
        client.subscribe("orders")
    settle(*clients)
    assert sorted(bed.consumers.subscribed) == [("orders",), FEW]
    for client in clients[2:]:
        client.leave()
    assert bed.consumers.subscribed_names() == {"orders"}
    bed.crash()
    assert list(bed.consumers.subscribed) == [("orders",)]


def test_topics_that_many_members_name_are_looked_up_once_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = ConsumerBed()
    looked_up = 0

    def id_of(name: str) -> object:
        nonlocal looked_up
        looked_up += 1
        return ORDERS

    clients = [Client(bed, f"m{number}", *again(FEW)) for number in range(100)]
    bed.divide_once_in(60_000)
    monkeypatch.setattr(bed.topics, "id_of", id_of)
    for client in clients:
        client.beat()
    assert looked_up < 100


def test_a_group_takes_no_more_names_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribed_names, "MAX_SUBSCRIBED_BYTES", 200, raising=False)
    bed = ConsumerBed()
    settle(*[Client(bed, f"m{number}", *again(FEW)) for number in range(5)])
    other = bed.say(Client(bed, "other", *(f"other-{number}" for number in range(5))).first())
    assert other.code is ErrorCode.GROUP_MAX_SIZE_REACHED and "topics" in (other.message or "")
    assert len(bed.consumers.members) == 5
