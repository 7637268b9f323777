"""A log is cut when no reader uses what goes; until then the slot says already where it ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.fetcher.two_brokers import NAME, Broker, TwoBrokers
from tests.processes.pieces import FETCHER, NETWORK, WORKER


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    made = TwoBrokers(tmp_path)
    yield made
    made.close()


def _diverged(brokers: TwoBrokers) -> Broker:
    """Broker 1 has five records of epoch 0, broker 2 leads with one of them and two of epoch 1."""
    client = brokers.leader.connect()
    brokers.write(client)
    brokers.run_until_equal()
    brokers.follower.kill(FETCHER)
    brokers.write(client, 4)
    brokers.lead(1, 1)
    brokers.write(brokers.leader.connect(), 2)
    brokers.leader.begin(FETCHER)
    return brokers.brokers[0]


def _announced(brokers: TwoBrokers, old: Broker) -> bool:
    """The network process of the old leader stands still within a pass."""
    old.turn(WORKER, FETCHER)
    brokers.leader.turn()
    return old.published(NAME).leo_offset == 1


def test_a_reader_within_its_pass_holds_the_cut_up_and_sees_the_new_end(brokers: TwoBrokers) -> None:
    old = _diverged(brokers)
    old.registry.enter_pass(old.registry.slot(NETWORK))
    brokers.leader.run(lambda: _announced(brokers, old), "the slot has the new end")
    generation = old.published(NAME).generation
    old.turn(WORKER, FETCHER)
    assert old.log().log_end_offset == 5, "nothing is cut while a reader may use it"
    assert old.published(NAME).hw_offset <= 1
    old.registry.leave_pass(old.registry.slot(NETWORK))
    brokers.run_until_equal()
    assert old.published(NAME).generation > generation
