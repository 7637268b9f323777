"""SIGKILL to workers while a pipeline copies records in transactions: each record is there once, and nothing hangs.

It needs real processes, which are killed, and a real client that recovers. `transaction_runs`, with seeds from
`kill_seed` on.
"""

import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers.daemon import Kafkad
from bench.brokers.processes import WITHIN_S, kill_all
from tests.amounts import amount
from tests.daemon.transaction_run import Copy, read_committed

RECORDS = 1_500
PARTITIONS = 3
RUNS = amount("transaction_runs")
FIRST_SEED = amount("kill_seed")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafkad]:
    overrides = {
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        "group.initial.rebalance.delay.ms": "0",
        "num.io.threads": "2",
        "num.network.threads": "1",
    }
    with Kafkad(tmp_path_factory.mktemp("exactly-once"), overrides) as broker:
        yield broker
        assert "exiting: unexpected error" not in broker.output.read_text()


class Killer:
    """Kills a worker every few hundred records that were copied."""

    def __init__(self, broker: Kafkad, chosen: random.Random) -> None:
        self._broker = broker
        self._chosen = chosen
        self._next = chosen.randrange(50, 200)
        self.kills = 0

    def copied(self, count: int) -> None:
        if count >= self._next:
            self._next = count + self._chosen.randrange(100, 400)
            workers = [process for process in self._broker.tree() if process.name.startswith("worker")]
            if workers:
                kill_all([self._chosen.choice(workers)])
                self.kills += 1


def prepared(broker: Kafkad, source: str, target: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    topics = [NewTopic(name, PARTITIONS, 1) for name in (source, target)]
    for made in admin.create_topics(topics).values():
        made.result(WITHIN_S)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(RECORDS):
        producer.produce(source, str(number), partition=number % PARTITIONS)
    assert producer.flush(WITHIN_S) == 0


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + RUNS))
def test_every_record_is_copied_once_whoever_dies(broker: Kafkad, seed: int) -> None:
    chosen = random.Random(seed)
    source, target = f"from-{seed}", f"to-{seed}"
    prepared(broker, source, target)
    killer = Killer(broker, chosen)
    copy = Copy(broker.bootstrap, source, target, name=f"copy-{seed}")
    copy.run(RECORDS, killer.copied)
    copy.close()
    assert killer.kills >= 2
    assert sorted(read_committed(broker.bootstrap, target, RECORDS)) == list(range(RECORDS)), f"seed {seed}"
