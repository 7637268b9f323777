"""A log whose broker begins or ceases to lead while it is compacted: the pass is of the log, not of its leader."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkad.core.cleaning.uncleanable import PassAbandoned
from kafkad.core.log.records.record import NewRecord, build_batch
from kafkad.core.log.segments.layout import CLEANED, SWAP
from kafkad.wire.processes.cleaning_messages import CleaningGranted
from tests.core.cleaning.naive import read_batches
from tests.processes.fetcher.two_brokers import NAME, TwoBrokers
from tests.processes.pieces import FETCHER, Client
from tests.processes.worker.played_cleaner import NOW, Cleaner
from tests.tools.raw_requests import fetch, produce, read_fetched, read_produced


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path, settings={"log.cleanup.policy": "compact"})
    yield made
    made.close()


@pytest.fixture
def cleaner(brokers: TwoBrokers, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cleaner]:
    """Of broker 1."""
    played = Cleaner(brokers.brokers[0], monkeypatch)
    yield played
    played.close()


def write(brokers: TwoBrokers, *values: str, client: Client | None = None) -> None:
    """To the leader, a batch for each; the key of a value is its first letter."""
    client = client or brokers.leader.connect()
    for value in values:
        client.send(produce({(NAME, 0): build_batch([NewRecord(NOW, value[:1].encode(), value.encode())])}))
        brokers.run(lambda: client.replies, "a reply comes")
        assert read_produced(client.replies.pop(0)[1])[NAME, 0].error == 0


def read(brokers: TwoBrokers) -> list[str]:
    """What a consumer gets from the leader."""
    client, end = brokers.leader.connect(), brokers.leader.log().log_end_offset
    values: list[str] = []
    offset = 0
    while offset < end:
        client.send(fetch({(NAME, 0): offset}))
        brokers.run(lambda: client.replies, "a reply comes")
        for batch in read_batches(read_fetched(client.replies.pop(0)[1])[NAME, 0].records):
            values += [(row.value or b"").decode() for row in batch.rows if row.offset >= offset]
            offset = batch.last_offset + 1
    return values


def seal(brokers: TwoBrokers) -> None:
    """The leader's segment, when all in it is committed."""
    leader = brokers.leader
    log = leader.log()
    brokers.run(lambda: log.high_watermark.offset == log.log_end_offset, "all is committed")
    log.roll(log.log_end_offset, NOW)
    log.flush()
    leader.worker.outbox.touched(leader.worker.partitions.by_slot[leader.slot(NAME)])
    brokers.run_until_equal()


def begun(brokers: TwoBrokers, cleaner: Cleaner) -> CleaningGranted:
    """a1, b1 and a2, c1 are in sealed segments of broker 1, which leads."""
    for values in (("a1", "b1"), ("a2", "c1")):
        write(brokers, *values)
        seal(brokers)
    return cleaner.ask(4, NAME)


def test_a_leader_that_follows_in_mid_pass_compacts_on_and_loses_and_doubles_nothing(
    brokers: TwoBrokers, cleaner: Cleaner
) -> None:
    granted = begun(brokers, cleaner)
    steps = cleaner.steps(granted, 4, NAME)
    cleaner.until_written(steps)
    old = brokers.leader
    brokers.lead(1, 1)
    write(brokers, "b2")
    brokers.run(lambda: old.log().log_end_offset == 5, "the old leader follows")
    cleaner.until_swap(steps)
    write(brokers, "d1")
    assert cleaner.swapped()
    assert old.log().rewrites == 1 and old.log().truncations == 0
    brokers.run(lambda: old.log().high_watermark.offset == 6, "it goes on following")
    assert read(brokers) == ["a1", "b1", "a2", "c1", "b2", "d1"], "each replica compacts for itself"
    brokers.lead(0, 2)
    assert read(brokers) == ["b1", "a2", "c1", "b2", "d1"]
    write(brokers, "e1")
    brokers.run(lambda: brokers.follower.log().log_end_offset == 7, "the other one follows a compacted log")


def test_a_leader_whose_log_is_cut_as_it_follows_is_compacted_by_the_next_pass(
    brokers: TwoBrokers, cleaner: Cleaner
) -> None:
    granted = begun(brokers, cleaner)
    steps = cleaner.steps(granted, 4, NAME)
    cleaner.until_written(steps)
    old = brokers.leader
    client = old.connect()
    brokers.follower.kill(FETCHER)
    write(brokers, "x1", client=client)
    brokers.lead(1, 1)
    write(brokers, "y1")
    brokers.leader.begin(FETCHER)
    brokers.run_until_equal()
    assert old.log().truncations == 1
    swap = cleaner.until_swap(steps)
    swap.done.set_result(cleaner.swapped())
    with pytest.raises(PassAbandoned):
        next(steps)
    cleaner.end(granted)
    assert old.log().rewrites == 0
    cleaner.run(4, name=NAME)
    assert old.log().rewrites == 1
    assert not [name for name in old.log().store.names() if name.endswith((CLEANED, SWAP))]
    brokers.lead(0, 2)
    assert read(brokers) == ["b1", "a2", "c1", "y1"]
