"""A broker as its handlers see it, made of topics that a test names."""

from uuid import UUID

from kafkad.core.controller.image import Broker, Listener, MetadataImage, Partition, Topic
from kafkad.core.errors import KafkaError
from kafkad.core.log.reading.log_reader import LogReader
from kafkad.core.log.segments.indexed_batches import WrongIndex
from kafkad.core.partition_slot import ROLE_LEADER, STATE_ONLINE, PartitionSlot
from kafkad.handlers.partitions.damage import code_of
from kafkad.handlers.partitions.partition_routes import Routing, TopicRoute
from kafkad.handlers.requests.broker_view import BrokerView

BROKER = 1
CLUSTER = "the-cluster"


class Slots:
    """Published slots by number; what was never published is a free slot."""

    def __init__(self) -> None:
        self.published: dict[int, PartitionSlot] = {}

    def read(self, slot: int) -> PartitionSlot:
        return self.published.get(slot, PartitionSlot())


class Logs:
    """Readers by slot; one that is not here yet has been asked for."""

    def __init__(self) -> None:
        self.readers: dict[int, LogReader] = {}
        self.asked: list[int] = []
        self.forgotten: list[int] = []
        self.doubts: list[tuple[int, int]] = []
        self.log_rate_limit: list[tuple[int, str]] = []

    def reader(self, slot: int, published: PartitionSlot) -> LogReader | None:
        if slot not in self.readers:
            self.asked.append(slot)
        return self.readers.get(slot)

    def refresh_manifest(self, slot: int, published: PartitionSlot) -> None:
        self.forgotten.append(slot)
        self.readers.pop(slot, None)

    def recheck_index(self, slot: int, published: PartitionSlot, error: WrongIndex) -> None:
        self.doubts.append((slot, error.base_offset))
        self.readers.pop(slot, None)

    def unreadable(self, slot: int, published: PartitionSlot, error: Exception) -> KafkaError:
        self.log_rate_limit.append((slot, str(error)))
        return KafkaError(code_of(error))


def a_partition(index: int = 0, slot: int = 0, **changes: object) -> Partition:
    values: dict[str, object] = {
        "index": index,
        "slot": slot,
        "owner": 0,
        "log_dir": 0,
        "leader": BROKER,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "replicas": (BROKER,),
        "isr": (BROKER,),
    }
    return Partition(**(values | changes))  # type: ignore[arg-type]


def a_topic(name: str, number: int, *partitions: Partition, configs: dict[str, str] | None = None) -> Topic:
    rows = partitions or (a_partition(),)
    return Topic(name=name, id=UUID(int=number), partitions=rows, configs=configs or {})


def a_broker(broker_id: int = BROKER, rack: str | None = None, listener_name: str = "PLAINTEXT") -> Broker:
    host, port = f"host{broker_id}", 9000 + broker_id
    listener = Listener(name=listener_name, host=host, port=port, security_protocol="PLAINTEXT")
    return Broker(id=broker_id, epoch=1, listeners=(listener,), rack=rack)


def an_image(*topics: Topic, brokers: tuple[Broker, ...] = (a_broker(),)) -> MetadataImage:
    return MetadataImage(
        version=1,
        cluster_id=CLUSTER,
        brokers={broker.id: broker for broker in brokers},
        topics={topic.name: topic for topic in topics},
        names_by_id={topic.id: topic.name for topic in topics},
    )


def a_route(topic: Topic) -> TopicRoute:
    rows = topic.partitions
    return TopicRoute(topic.name, topic.id, [row.slot for row in rows], [row.owner for row in rows])


def a_view(*topics: Topic, brokers: tuple[Broker, ...] = (a_broker(),)) -> BrokerView:
    """Every partition with a slot is online, empty, owned by its worker."""
    slots = Slots()
    for topic in topics:
        for row in topic.partitions:
            slots.published[row.slot] = PartitionSlot(
                topic_id=topic.id.bytes,
                partition=row.index,
                owner=row.owner,
                log_dir=row.log_dir,
                role=ROLE_LEADER,
                state=STATE_ONLINE,
                leader_epoch=row.leader_epoch,
            )
    return BrokerView(
        broker_id=BROKER,
        log_dirs=("/data",),
        slots=slots,
        logs=Logs(),
        image=an_image(*topics, brokers=brokers),
        routing=Routing(a_route(topic) for topic in topics),
    )
