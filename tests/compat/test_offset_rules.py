"""The same requests about offsets to kafkad and to Apache Kafka, in every version: the same answers, in every field."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.java import kafka_tool
from bench.brokers.processes import eventually
from kafkad.wire.api_table import OFFSET_COMMIT, OFFSET_FETCH, TXN_OFFSET_COMMIT
from tests.compat.conftest import SUBJECT
from tests.compat.group_sides import Member, Side
from tests.handlers.kio_calls import KioApi, versions_of

_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "offset.metadata.max.bytes": "20",
    "offsets.retention.check.interval.ms": "200",
}
_NO_ID = UUID(int=0)
_STRANGE_ID = UUID(int=99)
_TIMEOUT = timedelta(seconds=30)


class Offsets:
    """One client and a group of its own; topic ids are told by name in what it heard."""

    def __init__(self, side: Side, ids: dict[str, UUID]) -> None:
        self.side = side
        self.group = side.group
        self.member: Member = side.member("client")
        self.ids = ids
        self._names = {topic_id: name for name, topic_id in ids.items()}
        self.producer_id, self.producer_epoch = -1, -1
        self._held: dict[str, int] = {}

    def transcript(self) -> list[Any]:
        return [_named(each, self._names) for each in self.side.transcript]

    def commit(self, version: int, *rows: tuple[str, int, int], metadata: str | None = None, **values: Any) -> Any:
        """`rows`: topic, partition, offset."""
        whole = {
            "group_id": self.group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
            "retention_time": timedelta(milliseconds=-1),
            "topics": self._topics("offset_commit", "OffsetCommitRequest", version, rows, metadata),
        }
        return self.member.ask("offset_commit", version, **(whole | values))

    def txn_commit(self, version: int, *rows: tuple[str, int, int], metadata: str | None = None, **values: Any) -> Any:
        whole = {
            "transactional_id": f"{self.group}-producer",
            "group_id": self.group,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": self._topics("txn_offset_commit", "TxnOffsetCommitRequest", version, rows, metadata),
        }
        return self.member.ask("txn_offset_commit", version, **(whole | values))

    def _topics(
        self, api: str, message: str, version: int, rows: tuple[tuple[str, int, int], ...], metadata: str | None
    ) -> tuple[Any, ...]:
        part = KioApi(api, version).part
        return tuple(
            part(
                f"{message}Topic",
                name=topic,
                topic_id=self.ids.get(topic, _STRANGE_ID),
                partitions=(
                    part(
                        f"{message}Partition",
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=offset % 7,
                        committed_metadata=metadata,
                    ),
                ),
            )
            for topic, partition, offset in rows
        )

    def fetch(self, version: int, *topics: str, everything: bool = False, stable: bool = False, **values: Any) -> Any:
        """Partitions 0 to 3 of `topics`."""
        part = KioApi("offset_fetch", version).part
        name = "OffsetFetchRequestTopics" if version >= 8 else "OffsetFetchRequestTopic"
        rows = tuple(
            part(name, name=topic, topic_id=self.ids.get(topic, _STRANGE_ID), partition_indexes=(0, 1, 2, 3))
            for topic in topics
        )
        wanted: dict[str, Any] = {"group_id": self.group, "topics": None if everything else rows}
        wanted |= {"member_id": None, "member_epoch": -1}

        whole: dict[str, Any] = wanted | {"require_stable": stable} | values
        if version >= 8:
            whole["groups"] = (part("OffsetFetchRequestGroup", **(wanted | values)),)
        return self.member.ask("offset_fetch", version, **whole)

    def forget(self, *rows: tuple[str, int], **values: Any) -> Any:
        part = KioApi("offset_delete", 0).part
        topics = tuple(
            part(
                "OffsetDeleteRequestTopic",
                name=topic,
                partitions=(part("OffsetDeleteRequestPartition", partition_index=partition),),
            )
            for topic, partition in rows
        )
        return self.member.ask("offset_delete", 0, **({"group_id": self.group, "topics": topics} | values))

    def stay(self, member_id: str, topic: str, epoch: int) -> int:
        """Heartbeats of a member of the new protocol, which joins with -1, until it has a later epoch than `epoch`."""
        before = list(self.side.transcript)
        part = KioApi("consumer_group_heartbeat", 1).part
        joining = {
            "rebalance_timeout": timedelta(minutes=5),
            "subscribed_topic_names": (topic,),
            "topic_partitions": (),
            "member_epoch": 0,
        }
        staying = {"subscribed_topic_names": None, "topic_partitions": None, "member_epoch": epoch}
        said: dict[str, Any] = joining if epoch < 0 else staying

        def is_settled() -> bool:
            answer = self.member.ask("consumer_group_heartbeat", 1, group_id=self.group, member_id=member_id, **said)
            if int(answer.error_code) in (14, 15, 16):
                return False
            assert int(answer.error_code) == 0, answer
            said.clear()
            said.update(staying | {"member_epoch": answer.member_epoch})
            if answer.assignment is not None:
                rows = answer.assignment.topic_partitions
                owned = (part("TopicPartitions", topic_id=each.topic_id, partitions=each.partitions) for each in rows)
                said["topic_partitions"] = tuple(owned)
                self._held[member_id] = sum(len(each.partitions) for each in rows)
            is_later = answer.member_epoch > epoch and answer.assignment is None
            return is_later and self._held.get(member_id, 0) > 0

        eventually(is_settled, what=f"{member_id} is settled")
        self.side.transcript = before
        return int(said["member_epoch"])

    def create(self, topic: str) -> None:
        """Not written down; where a deletion is still under way the name becomes free in the end, and whoever has
        created a topic may know it before the rest of the broker does."""
        before = list(self.side.transcript)
        new = KioApi("create_topics", 7).part(
            "CreatableTopic", name=topic, num_partitions=4, replication_factor=1, assignments=(), configs=()
        )

        def is_there() -> bool:
            answer = self.member.ask("create_topics", 7, topics=(new,), timeout=_TIMEOUT, validate_only=False)
            self.ids[topic] = answer.topics[0].topic_id
            return int(answer.topics[0].error_code) == 0

        eventually(is_there, what=f"{topic} is created")
        named = (KioApi("metadata", 12).part("MetadataRequestTopic", name=topic, topic_id=None),)

        def is_known() -> bool:
            (known,) = self.member.ask("metadata", 12, topics=named, **_METADATA).topics
            return known.topic_id == self.ids[topic] and len(known.partitions) == 4

        eventually(is_known, what=f"the broker knows {topic}")
        self._names[self.ids[topic]] = topic
        self.side.transcript = before

    def delete(self, topic: str) -> None:
        before = list(self.side.transcript)
        row = KioApi("delete_topics", 6).part("DeleteTopicState", name=topic, topic_id=None)
        (answer,) = self.member.ask("delete_topics", 6, topics=(row,), timeout=_TIMEOUT).responses
        assert int(answer.error_code) == 0
        self.side.transcript = before

    def until_gone(self, topic: str) -> None:
        """Asks until nothing is committed any more; how often that takes is not written down."""
        before = list(self.side.transcript)

        def is_gone() -> bool:
            (group,) = self.fetch(9, topic).groups
            return all(row.committed_offset == -1 for each in group.topics for row in each.partitions)

        eventually(is_gone, what=f"the offsets in {topic} are gone")
        self.side.transcript = before

    # The other side of a transaction.

    def begin_transaction(self, *, adds_offsets: bool = True) -> None:
        """Until the coordinator is loaded and knows that offsets of the group belong to the transaction."""
        before = list(self.side.transcript)
        name = f"{self.group}-producer"

        def has_id() -> bool:
            self.member.ask("find_coordinator", 3, key=name, key_type=1)
            values = {"transactional_id": name, "transaction_timeout": timedelta(seconds=60)}
            answer = self.member.ask("init_producer_id", 4, **values, producer_id=-1, producer_epoch=-1)
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            return int(answer.error_code) == 0

        eventually(has_id, what="the producer has its id")
        if adds_offsets:
            self.add_offsets()
        self.side.transcript = before

    def add_offsets(self) -> None:
        before = list(self.side.transcript)
        eventually(
            lambda: int(self._of_transaction("add_offsets_to_txn", 3, group_id=self.group).error_code) == 0,
            what="the offsets are in the transaction",
        )
        self.side.transcript = before

    def end_transaction(self, *, committed: bool, version: int = 3) -> None:
        """Until no offset of the group is held back, and the next transaction may begin. From version 5 on that has
        another epoch."""
        before = list(self.side.transcript)
        answer = self._of_transaction("end_txn", version, committed=committed)
        assert int(answer.error_code) == 0
        if version >= 5:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

        def is_stable() -> bool:
            (group,) = self.fetch(9, everything=True, stable=True).groups
            rows = [row for topic in group.topics for row in topic.partitions]
            (asked,) = self.fetch(9, "orders", stable=True).groups
            rows += [row for topic in asked.topics for row in topic.partitions]
            described = self.member.ask("describe_transactions", 0, transactional_ids=(f"{self.group}-producer",))
            is_over = described.transaction_states[0].transaction_state.startswith("Complete")
            return is_over and all(int(row.error_code) == 0 for row in rows)

        eventually(is_stable, what="the transaction has ended")
        self.side.transcript = before

    def _of_transaction(self, api: str, version: int, **values: Any) -> Any:
        whole = {"transactional_id": f"{self.group}-producer", "producer_id": self.producer_id}
        return self.member.ask(api, version, **whole, producer_epoch=self.producer_epoch, **values)


Scenario = Callable[[Offsets], None]


def _named(value: Any, names: dict[UUID, str]) -> Any:
    if isinstance(value, UUID):
        return names.get(value, str(value))
    if isinstance(value, dict):
        return {key: _named(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_named(each, names) for each in value), key=repr)
    if isinstance(value, tuple):
        return tuple(_named(each, names) for each in value)
    return value


def every_version(offsets: Offsets) -> None:
    for version in versions_of(OFFSET_COMMIT):
        offsets.commit(version, ("orders", 0, version), ("payments", 1, 100 + version), metadata="nöte")
        for fetched in versions_of(OFFSET_FETCH):
            offsets.fetch(fetched, "orders", "payments")
            if fetched >= 2:
                offsets.fetch(fetched, everything=True)


def nothing_there(offsets: Offsets) -> None:
    """A group without offsets, topics that are not there, partitions beyond the last, nothing asked."""
    for version in versions_of(OFFSET_FETCH):
        offsets.fetch(version, "orders", "nothing")
        offsets.fetch(version)
        if version >= 2:
            offsets.fetch(version, everything=True)
    for version in versions_of(OFFSET_COMMIT):
        offsets.commit(version, ("nothing", 0, 1), ("orders", 7, 1), ("orders", -1, 1), ("orders", 1, 1))
        offsets.commit(version, ("nothing", 0, 1))
        offsets.commit(version)
    offsets.fetch(9, everything=True)
    offsets.fetch(10, "orders", "nothing")


def metadata(offsets: Offsets) -> None:
    for text in (None, "", "x" * 20, "x" * 21, "ü" * 20, "𝄞" * 10, "𝄞" * 11):
        offsets.commit(9, ("orders", 0, 1), metadata=text)
        offsets.fetch(9, "orders")
    offsets.commit(9, ("orders", 0, -1))
    offsets.commit(9, ("orders", 1, -5))
    offsets.fetch(9, "orders")


def nameless(offsets: Offsets) -> None:
    offsets.commit(9, ("orders", 0, 5), group_id="")
    offsets.fetch(9, "orders", group_id="")
    offsets.txn_commit(3, ("orders", 0, 5), group_id="")
    offsets.forget(("orders", 0), group_id="")


def strangers(offsets: Offsets) -> None:
    """Members of a group that is not there, and of one that nobody is in."""
    for made in (False, True):
        if made:
            offsets.commit(9, ("orders", 0, 5))
        for version in versions_of(OFFSET_COMMIT):
            if version >= 7:
                offsets.commit(version, ("orders", 0, 6), group_instance_id="static")
            offsets.commit(version, ("orders", 0, 6), member_id="stranger", generation_id_or_member_epoch=1)
            offsets.commit(version, ("orders", 0, 6), ("nothing", 0, 6), generation_id_or_member_epoch=0)
        if not made:
            offsets.fetch(9, everything=True)
    offsets.fetch(9, everything=True, member_id="stranger", member_epoch=5)


def members(offsets: Offsets) -> None:
    """Who commits in a stable group, in one that rebalances and in one that is left."""
    subscription = b"\0\0\0\0\0\1\0\6orders\xff\xff\xff\xff"
    member = offsets.member
    whole: dict[str, Any] = {"protocols": (("range", subscription),), "protocol_type": "consumer"}
    # A group without members and offsets may be forgotten between two requests.
    offsets.commit(9, ("payments", 1, 1))
    member.join(9, **whole)
    member.join(9, **whole)
    mine: dict[str, Any] = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation}
    offsets.commit(9, ("orders", 0, 1), **mine)
    member.sync(5, member, protocol_type="consumer")
    for version in versions_of(OFFSET_COMMIT):
        offsets.commit(version, ("orders", 0, version), **mine)
        offsets.commit(version, ("orders", 0, 99))
        offsets.commit(version, ("orders", 0, 99), **(mine | {"generation_id_or_member_epoch": 0}))
        offsets.commit(version, ("orders", 0, 99), **(mine | {"member_id": "stranger"}))
        if version >= 7:
            offsets.commit(version, ("orders", 0, 99), **(mine | {"group_instance_id": "static"}))
    offsets.commit(9, ("payments", 0, 1), **mine)
    offsets.fetch(9, everything=True)
    offsets.forget(("orders", 0), ("payments", 0), ("nothing", 0), ("orders", 9))
    offsets.fetch(9, everything=True)
    member.leave()
    offsets.commit(9, ("orders", 0, 99), **mine)
    offsets.commit(8, ("orders", 1, 100))
    offsets.fetch(9, everything=True)


def members_of_the_new_protocol(offsets: Offsets) -> None:
    """Who says the right epoch, a wrong one, none, or is a stranger; a second member makes a new epoch (KIP-848)."""
    first, second = "first-member-of-the-group", "second-member-of-the-group"
    epoch = offsets.stay(first, "orders", -1)
    for version in versions_of(OFFSET_COMMIT):
        offsets.commit(version, ("orders", 0, version), member_id=first, generation_id_or_member_epoch=epoch)
    for strange in (epoch + 1, epoch - 1, 0, -1, -2):
        offsets.commit(9, ("orders", 0, 99), member_id=first, generation_id_or_member_epoch=strange)
    offsets.commit(9, ("orders", 0, 99), member_id="stranger", generation_id_or_member_epoch=epoch)
    offsets.commit(9, ("orders", 0, 99))
    offsets.commit(9, ("payments", 0, 3), member_id=first, generation_id_or_member_epoch=epoch)
    for member_id, said in ((None, -1), (first, epoch), (first, epoch - 1), (first, epoch + 1), ("stranger", epoch)):
        offsets.fetch(9, "orders", member_id=member_id, member_epoch=said)
        offsets.fetch(10, everything=True, member_id=member_id, member_epoch=said)
    offsets.forget(("orders", 0), ("payments", 0))
    later = offsets.stay(second, "payments", -1)
    assert offsets.stay(first, "orders", epoch) == later > epoch
    for number, said in enumerate((later, later + 1, epoch - 1)):
        offsets.commit(9, ("orders", 0, 100 + number), member_id=first, generation_id_or_member_epoch=said)
    offsets.commit(9, ("orders", 0, 1), ("payments", 0, 1), member_id=first, generation_id_or_member_epoch=epoch)
    offsets.commit(9, ("orders", 1, 1), member_id=second, generation_id_or_member_epoch=later)
    offsets.fetch(9, everything=True)


def not_consumers(offsets: Offsets) -> None:
    """Offsets of a group whose members are of another kind are not forgotten while they are there."""
    member = offsets.member
    offsets.commit(9, ("orders", 0, 1))
    member.join(9)
    member.join(9)
    offsets.forget(("orders", 0))
    member.leave()
    offsets.forget(("orders", 0))
    offsets.fetch(9, everything=True)


def forgotten(offsets: Offsets) -> None:
    offsets.forget(("orders", 0))
    offsets.commit(9, ("orders", 0, 1), ("orders", 1, 2), ("payments", 0, 3))
    offsets.forget(("orders", 0), ("payments", 1), ("nothing", 0), ("orders", 9))
    offsets.fetch(9, everything=True)
    offsets.forget()
    offsets.forget(("nothing", 0))
    offsets.member.delete()
    offsets.fetch(9, everything=True)
    offsets.forget(("orders", 1))


def retention(offsets: Offsets) -> None:
    for version in (2, 3, 4):
        offsets.commit(version, ("orders", 0, version), retention_time=timedelta(milliseconds=1))
        offsets.commit(version, ("payments", 0, version), retention_time=timedelta(days=1))
        offsets.until_gone("orders")
        offsets.fetch(9, everything=True)


def deleted_topics(offsets: Offsets) -> None:
    """Their offsets go with them, those that a transaction holds back as well; the next of the name starts anew."""
    for version in (5, 10):
        offsets.create("doomed")
        offsets.commit(version, ("doomed", 0, 5), ("doomed", 3, 6), ("orders", 0, 7))
        offsets.fetch(10, everything=True)
        if version == 10:
            offsets.begin_transaction()
            offsets.txn_commit(3, ("doomed", 1, 8), ("orders", 1, 9))
        offsets.delete("doomed")
        offsets.until_gone("doomed")
        offsets.fetch(9, everything=True)
    offsets.end_transaction(committed=True)
    offsets.fetch(9, everything=True)


def transactions(offsets: Offsets) -> None:
    """Held back until the transaction ends; later plain commits outlive it."""
    offsets.commit(9, ("orders", 0, 1))
    for version in versions_of(TXN_OFFSET_COMMIT):
        if version == 5:
            continue
        for committed in (True, False):
            if version or not committed:
                offsets.add_offsets()
            else:
                offsets.begin_transaction()
            offsets.txn_commit(version, ("orders", 0, 10 + version), ("nothing", 0, 1), ("orders", 9, 1))
            offsets.txn_commit(version, ("orders", 1, 20 + version), metadata="x" * 21)
            offsets.txn_commit(version, ("orders", 2, 30 + version), metadata="note")
            offsets.commit(9, ("orders", 2, 7))
            for fetched in (6, 7, 8, 9, 10):
                offsets.fetch(fetched, "orders", stable=True)
                offsets.fetch(fetched, everything=True, stable=fetched >= 7)
            offsets.fetch(9, "orders")
            if version == 3:
                offsets.forget(("orders", 0))
            offsets.end_transaction(committed=committed)
            offsets.fetch(9, "orders", stable=True)


def transactions_that_nobody_announces(offsets: Offsets) -> None:
    """Version 5 adds the offsets to the transaction itself; each transaction has an epoch of its own (KIP-890)."""
    offsets.commit(9, ("orders", 0, 1))
    offsets.begin_transaction(adds_offsets=False)
    for number, committed in enumerate((True, False, True)):
        offsets.txn_commit(5, ("orders", 0, 10 + number), ("orders", 1, 20 + number), ("nothing", 0, 1))
        offsets.txn_commit(5, ("orders", 2, 30 + number), producer_epoch=offsets.producer_epoch - 1)
        offsets.fetch(9, "orders", stable=True)
        offsets.end_transaction(committed=committed, version=5)
        offsets.fetch(9, "orders", stable=True)
    offsets.txn_commit(5, ("orders", 3, 7), generation_id=3, member_id="stranger")
    offsets.txn_commit(4, ("orders", 3, 7))


def refused_transactions(offsets: Offsets) -> None:
    offsets.begin_transaction()
    for version in (3, 4):
        offsets.txn_commit(version, ("orders", 0, 5), generation_id=3, member_id="stranger")
        offsets.txn_commit(version, ("orders", 0, 5), member_id="stranger")
        offsets.txn_commit(version, ("nothing", 0, 5))
        offsets.txn_commit(version, ("nothing", 0, 5), ("orders", 9, 5), producer_epoch=offsets.producer_epoch + 1)
        offsets.txn_commit(version, ("nothing", 0, 5), group_id="")
        offsets.txn_commit(version)
        offsets.txn_commit(version, ("orders", 0, 5), producer_epoch=offsets.producer_epoch + 1)
    offsets.txn_commit(3, ("orders", 0, 5))
    offsets.txn_commit(3, ("orders", 0, 6), producer_epoch=offsets.producer_epoch - 1)
    offsets.end_transaction(committed=True)
    offsets.fetch(9, everything=True)


SCENARIOS: tuple[Scenario, ...] = (
    every_version,
    nothing_there,
    metadata,
    nameless,
    strangers,
    members,
    members_of_the_new_protocol,
    not_consumers,
    forgotten,
    retention,
    deleted_topics,
    transactions,
    transactions_that_nobody_announces,
    refused_transactions,
)


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningBroker, RunningBroker]]:
    with (
        SUBJECT(tmp_path_factory.mktemp("ours"), _SETTINGS) as ours,
        ApacheKafka(tmp_path_factory.mktemp("theirs"), _SETTINGS) as theirs,
    ):
        for broker in (ours, theirs):
            for topic, partitions in (("orders", 4), ("payments", 2)):
                args = ["--bootstrap-server", broker.bootstrap, "--create", "--topic", topic]
                done = kafka_tool("kafka-topics", *args, "--partitions", str(partitions))
                assert done.returncode == 0, done.stderr.decode()
        yield ours, theirs


def _heard(broker: RunningBroker, scenario: Scenario) -> list[Any]:
    with Side(broker, scenario.__name__) as side:
        tool = side.member("tool")
        names = tuple(KioApi("metadata", 12).part("MetadataRequestTopic", name=name, topic_id=None) for name in _TOPICS)
        answer = tool.ask("metadata", 12, topics=names, **_METADATA)
        ids = {str(topic.name): topic.topic_id for topic in answer.topics}

        def is_coordinated() -> bool:
            tool.ask("find_coordinator", 0, key=side.group)
            (group,) = tool.describe(5).groups
            return int(group.error_code) == 0

        eventually(is_coordinated, what=f"{broker.name} coordinates groups")
        side.transcript = []
        offsets = Offsets(side, ids)
        scenario(offsets)
        return offsets.transcript()


_TOPICS = ("orders", "payments")
_METADATA = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: str(each.__name__))
def test_both_answer_alike(brokers: tuple[RunningBroker, RunningBroker], scenario: Scenario) -> None:
    ours, theirs = (_heard(broker, scenario) for broker in brokers)
    assert len(ours) == len(theirs) > 0
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1]] == []
