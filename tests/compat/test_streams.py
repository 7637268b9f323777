"""A Kafka Streams word count with exactly_once_v2: every word counts once, also while workers or brokers are killed."""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bench.brokers.broker import RunningBroker
from bench.brokers.processes import WITHIN_S, eventually, kill_all
from tests.compat.conftest import SUBJECT
from tests.compat.side_by_side import Tools
from tests.compat.word_count import Counts, make_topics, word_count, write_lines
from tests.daemon.cluster import Cluster

_LINES = 6_000

NewTopic = Callable[[str], str]


def test_words_are_counted_once_by_two_instances(
    broker: RunningBroker, tools: Tools, new_topic: NewTopic, tmp_path: Path
) -> None:
    name = new_topic("word-count")
    make_topics(broker.bootstrap, name)
    counts = Counts(broker.bootstrap, f"{name}-out")
    with (
        word_count(broker.bootstrap, name, tmp_path / "first"),
        word_count(broker.bootstrap, name, tmp_path / "second"),
    ):
        written = write_lines(broker.bootstrap, f"{name}-in", random.Random(1), _LINES)
        counts.wait_for(written.total())
    counts.close()
    assert counts.of == dict(written)


def test_words_are_counted_once_while_workers_are_killed(tmp_path: Path) -> None:
    chosen = random.Random(2)
    overrides = {
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        "num.io.threads": "2",
    }
    with SUBJECT(tmp_path / "broker", overrides) as broker:
        make_topics(broker.bootstrap, "word-count")
        counts = Counts(broker.bootstrap, "word-count-out")
        with word_count(broker.bootstrap, "word-count", tmp_path / "first"):
            written: Counter[str] = Counter()
            for _ in range(5):
                written += write_lines(broker.bootstrap, "word-count-in", chosen, _LINES // 5)
                counts.wait_for(written.total() // 2)
                kill_all([chosen.choice([each for each in broker.tree() if each.name.startswith("worker")])])
            counts.wait_for(written.total())
        counts.close()
    assert counts.of == dict(written)


class _WithThreeReplicas(Cluster):
    """Of every topic."""

    def settings(self) -> dict[str, str]:
        three = ("default", "offsets.topic", "transaction.state.log")
        return {
            **super().settings(),
            **{f"{name}.replication.factor": "3" for name in three},
            "transaction.state.log.min.isr": "2",
            "transaction.state.log.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
        }


def test_words_are_counted_once_while_leaders_of_a_cluster_are_killed(tmp_path: Path) -> None:
    with ExitStack() as ends:
        cluster = _WithThreeReplicas(tmp_path, ends)
        bootstrap = ",".join(broker.bootstrap for broker in cluster.brokers.values())
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        make_topics(bootstrap, "word-count")
        counts = Counts(bootstrap, "word-count-out")
        written: Counter[str] = Counter()
        chosen = random.Random(3)
        with word_count(bootstrap, "word-count", tmp_path / "first"):
            for partition in range(3):
                victim = cluster.brokers[_leaders(admin, "word-count-in")[partition]]
                for meanwhile in (None, victim.kill, None):
                    written += write_lines(bootstrap, "word-count-in", chosen, _LINES // 6, meanwhile)
                    counts.wait_for(written.total() // 2)
                victim.start()
                eventually(lambda: _all_are_in_sync(admin), what="all replicas are in sync")
            counts.wait_for(written.total())
        counts.close()
    assert counts.of == dict(written)


def _leaders(admin: AdminClient, topic: str) -> list[int]:
    """By partition."""
    partitions = admin.list_topics(topic, timeout=WITHIN_S).topics[topic].partitions
    return [partitions[index].leader for index in sorted(partitions)]


def _all_are_in_sync(admin: AdminClient) -> bool:
    topics = admin.list_topics(timeout=WITHIN_S).topics.values()
    return all(len(row.isrs) == 3 for topic in topics for row in topic.partitions.values())
