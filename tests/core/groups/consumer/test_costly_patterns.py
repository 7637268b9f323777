"""A pattern that takes too long: refused when it comes, left as it was when topics have made it so."""

import pytest

from kafkad.adapters.patterns import BoundedPattern
from kafkad.core.errors import ErrorCode
from kafkad.core.groups.consumer.messages import ConsumerHeartbeat
from tests.core.groups.consumer_bed import GROUP, Client, ConsumerBed, settle
from tests.core.groups.offsets_bed import ORDERS, PAYMENTS


def _too_long(*_: object) -> object:
    raise ValueError("it takes too long to match")


def test_who_brings_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedPattern, "fullmatch", _too_long)
    heard = ConsumerBed().say(
        ConsumerHeartbeat(group_id=GROUP, member_id="a", member_epoch=0, rebalance_timeout_ms=1, regex="o.*", owned={})
    )
    assert heard.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "takes too long" in (heard.message or "")


def test_who_has_it_keeps_its_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = ConsumerBed()
    client = Client(bed, "a", regex="ord.*")
    settle(client)
    monkeypatch.setattr(BoundedPattern, "fullmatch", _too_long)
    bed.topics.by_name["ordinary"] = (PAYMENTS, 1)
    bed.topics.version += 1
    settle(client)
    assert client.last.code is ErrorCode.NONE
    assert set(client.asked) == {ORDERS}
