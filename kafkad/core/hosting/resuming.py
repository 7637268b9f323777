"""How a broker whose controller process was replaced goes on in the same session: with the roles that the store has.

Nobody tells it again, as its registration never went. What an elected controller stored before it told this broker is
in the store; what it has yet to tell is newer, and comes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkad.core.cluster.control_requests import LeaderAndIsrRequest, UpdateMetadataRequest
from kafkad.core.controller.elected.announcements import Announcer, Request
from kafkad.core.controller.image import Broker, Topic
from kafkad.core.controller.partition_rows import make_partition
from kafkad.core.controller.store.stored_metadata import PartitionState
from kafkad.core.controller.topics.placement import NO_PLACE
from kafkad.core.hosting.hosting import Hosting
from kafkad.core.hosting.start import AssignedTopic
from kafkad.core.types import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRoles:
    """What the store says now; `brokers` are those that are registered, `listener` is the one between them.

    `controller_id` is -1 while nobody is elected.
    """

    controller_id: int
    controller_epoch: int
    listener: str
    brokers: Mapping[int, Broker]
    topics: Mapping[str, AssignedTopic]
    states: Mapping[TopicPartition, PartitionState]


def resume(hosting: Hosting, broker_id: int, stored: StoredRoles) -> None:
    """Take over the state of all partitions, and this broker's roles, as part of the first metadata."""
    own = stored.brokers[broker_id]
    hosting.registered(own.epoch, own.listeners, own.rack)
    announcer = Announcer(
        controller_id=stored.controller_id,
        controller_epoch=stored.controller_epoch,
        listener=stored.listener,
        brokers=stored.brokers,
    )
    rows = [(topic, topic.partitions) for each in stored.topics.values() if (topic := _topic(each, stored)).partitions]
    requests = announcer.roles(rows, is_new=False, only=[broker_id]) + announcer.metadata(rows, [broker_id])
    configs = {name: dict(topic.configs) for name, topic in stored.topics.items()}
    for _, request in requests:
        _take(hosting, request, configs)
    # Whoever asks gets all of it at once.
    hosting.take_deltas()


def _take(hosting: Hosting, request: Request, configs: Mapping[str, Mapping[str, str]]) -> None:
    match request:
        case LeaderAndIsrRequest():
            hosting.leader_and_isr(request, configs)
        case UpdateMetadataRequest():
            hosting.update_metadata(request, configs)


def _topic(topic: AssignedTopic, stored: StoredRoles) -> Topic:
    rows = []
    for index, replicas in enumerate(topic.assignments):
        state = stored.states.get(TopicPartition(topic.name, index))
        if state is not None:
            rows.append(make_partition(index, NO_PLACE, replicas, state))
    return Topic(name=topic.name, id=topic.id, partitions=tuple(rows), configs=dict(topic.configs))
