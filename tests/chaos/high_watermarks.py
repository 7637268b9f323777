"""Asks each broker in turn for the high watermark of what it leads: it never goes back, whoever leads."""

from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v7.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64

from kafkad.client.broker_client import parse_bootstrap
from kafkad.client.connection import BrokerCallFailed, BrokerConnection
from tests.chaos.workload import IN_TRANSACTIONS, PARTITIONS, WRITTEN, Client

TIMEOUT_S = 2.0
LATEST = i64(-1)


class Watcher(Client):
    """Who was replaced may not know it yet and tell an older one, in its older leader epoch. A leader that was just
    elected says that it does not know, until it does.
    """

    def work(self) -> None:
        told: dict[tuple[str, int], dict[int, int]] = {}
        while not self.is_over.is_set():
            try:
                with BrokerConnection(*self.random.choice(parse_bootstrap(self.bootstrap)), TIMEOUT_S) as broker:
                    self._watch(broker, told)
            except BrokerCallFailed:
                self.is_over.wait(0.1)

    def _watch(self, broker: BrokerConnection, told: dict[tuple[str, int], dict[int, int]]) -> None:
        for _ in range(self.random.randrange(1, 100)):
            answers = broker.call(_LATEST, ListOffsetsResponse)
            for topic in answers.topics:
                for answer in topic.partitions:
                    if answer.error_code == 0:
                        place, epoch = (str(topic.name), int(answer.partition_index)), int(answer.leader_epoch)
                        self._told(told.setdefault(place, {}), place, epoch, int(answer.offset))
            self.is_over.wait(0.02)

    def _told(self, told: dict[int, int], place: tuple[str, int], epoch: int, high_watermark: int) -> None:
        before = max((each for earlier, each in told.items() if earlier <= epoch), default=0)
        if high_watermark < before:
            self.promises.broken.append(
                f"{place}: the high watermark was {before}, and is {high_watermark} in epoch {epoch}"
            )
        told[epoch] = max(before, high_watermark)
        self.promises.count("high watermarks told")


_LATEST = ListOffsetsRequest(
    replica_id=BrokerId(-1),
    isolation_level=i8(0),
    topics=tuple(
        ListOffsetsTopic(
            name=TopicName(name),
            partitions=tuple(
                ListOffsetsPartition(partition_index=i32(each), timestamp=LATEST) for each in range(PARTITIONS)
            ),
        )
        for name in (WRITTEN, IN_TRANSACTIONS)
    ),
)
