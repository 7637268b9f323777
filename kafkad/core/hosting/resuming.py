"""Restores a broker's roles from the store after its controller process was replaced in the same session.

The controller does not send them again, because the registration never ended. It stores changes before it sends them,
so the store has all that it sent; later requests are newer.
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
    """The roles in the store; `brokers` are the registered ones, `listener` is the name of the inter-broker listener.

    `controller_id` is -1 while no controller is elected.
    """

    controller_id: int
    controller_epoch: int
    listener: str
    brokers: Mapping[int, Broker]
    topics: Mapping[str, AssignedTopic]
    states: Mapping[TopicPartition, PartitionState]


def resume(hosting: Hosting, broker_id: int, stored: StoredRoles) -> None:
    """Take over the states of all partitions, and this broker's roles, before the first metadata is published."""
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
        _apply(hosting, request, configs)
    # The other processes get the whole image.
    hosting.take_deltas()


def _apply(hosting: Hosting, request: Request, configs: Mapping[str, Mapping[str, str]]) -> None:
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
