"""A log whose segments are replaced again and again while clients read it: from its start, in both isolation levels,
with a fetch session and without, by time, and as members of groups, whose coordinator's log is replaced as well.
"""

from collections.abc import Callable, Iterator
from random import Random

import pytest

from kafkad.core.controller.deltas import FeaturesChanged
from tests.amounts import amount
from tests.processes.group_requests import OFFSETS, with_offsets_topic
from tests.processes.pieces import TOPIC, WORKER, Client, Pieces
from tests.processes.worker.played_cleaner import NOW, Cleaner, log_of
from tests.processes.worker.swap_members import ClassicMember, ConsumerMember, Member
from tests.processes.worker.swap_readers import Reader, ReaderInSession, Written
from tests.tools.raw_requests import list_offsets, produce, read_produced

SWAPS = amount("swaps")
OFFSETS_SWAPS = SWAPS // 10


def _search_by_time(client: Client, written: Written, offset: int) -> None:
    """What is found is there, and no record that has to be there is passed over."""
    found = int.from_bytes(client.ask(list_offsets(TOPIC, 0, NOW + offset))[-8:], "big")
    assert offset <= found <= min(each for each in written.latest.values() if each >= offset)


@pytest.fixture
def pieces(make_pieces: Callable[..., Pieces]) -> Pieces:
    made = make_pieces(
        log_cleanup_policy="compact",
        log_segment_delete_delay_ms="0",
        group_initial_rebalance_delay_ms="0",
        group_consumer_assignment_interval_ms="0",
    )
    with_offsets_topic(made, partitions=1)
    made.publish(FeaturesChanged({"group.version": 1}, 0))
    made.run_until_known()
    return made


@pytest.fixture
def cleaner(pieces: Pieces, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cleaner]:
    played = Cleaner(pieces, monkeypatch)
    yield played
    played.close()


def _roll(pieces: Pieces, name: str) -> int:
    """All that is there may be compacted now; returns where it ends."""
    rolled = log_of(pieces, name)
    rolled.roll(rolled.log_end_offset, NOW)
    rolled.flush()
    return rolled.log_end_offset


def _load_again(pieces: Pieces, cleaner: Cleaner, members: list[Member]) -> None:
    """The coordinator dies when all of its log is compacted; the next one knows what was committed last."""
    cleaner.run(_roll(pieces, OFFSETS), name=OFFSETS)
    pieces.replace(WORKER)
    pieces.run_until_online()
    pieces.run_until_online(OFFSETS)
    pieces.settle()
    for member in members:
        member.beat()
        member.go_on_from_committed()


def test_readers_work_through_many_swaps(pieces: Pieces, cleaner: Cleaner) -> None:
    random = Random(1)
    written = Written()
    writer, by_time = pieces.connect(), pieces.connect()
    members: list[Member] = [
        kind(pieces, written, group, random) for kind, group in ((ClassicMember, "c"), (ConsumerMember, "k"))
    ]
    readers = [kind(pieces.connect(), written) for kind in (Reader, Reader, ReaderInSession)] + members
    partition_log, offsets_log = log_of(pieces), log_of(pieces, OFFSETS)

    def read() -> None:
        for reader in readers:
            reader.begin()

    def heard() -> None:
        for reader in readers:
            reader.end()

    while partition_log.rewrites < SWAPS:
        assert read_produced(writer.ask(produce({(TOPIC, 0): written.next_batch(random)})))[TOPIC, 0].error == 0
        cleaner.run(_roll(pieces, TOPIC), read)
        heard()
        if offsets_log.rewrites * SWAPS < partition_log.rewrites * OFFSETS_SWAPS:
            cleaner.run(_roll(pieces, OFFSETS), read, OFFSETS)
        else:
            read()
        heard()
        _search_by_time(by_time, written, random.randrange(max(written.latest.values()) + 1))
    assert all(reader.rounds > SWAPS // 10 for reader in readers)
    assert all(member.commits > SWAPS and member.losses > SWAPS // 10 for member in members)
    assert offsets_log.rewrites >= OFFSETS_SWAPS
    pieces.settle()
    left = [path.name for path in pieces.directory().iterdir()]
    assert not [name for name in left if name.endswith((".cleaned", ".swap"))]
    _load_again(pieces, cleaner, members)
