"""ISR changes requested by this broker's leaders: one AlterPartition request in flight, later changes are pending.

Without a response from the controller, the request is sent again soon, with the latest changes.
"""

from collections.abc import Callable
from itertools import islice
from uuid import UUID

from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.cluster.control_requests import (
    AlteredPartition,
    AlterPartitionPartition,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    IsrMember,
)
from kafkad.core.cluster.protocol_versions import ProtocolVersions
from kafkad.core.controller.image import Broker
from kafkad.core.errors import ErrorCode
from kafkad.core.types import NO_TOPIC_ID
from kafkad.processes.controller.ports import Host, Send
from kafkad.processes.controller.requests.forwarding import RequestForwarding
from kafkad.wire.api_table import ALTER_PARTITION as API_KEY
from kafkad.wire.cluster.alter_partition import ALTER_PARTITION
from kafkad.wire.processes.controller_messages import IsrChangeDone, IsrChangeRequest, pack_message

RETRY_MS = 50
MAX_PARTITIONS = 500
"""The limit of partitions in one request, so that encoding it blocks the loop for a few milliseconds only."""
OnResponse = Callable[[AlterPartitionResponse | None], None]
AlterLocally = Callable[[AlterPartitionRequest, OnResponse], bool]
Key = tuple[bytes, int]


class IsrChanges:
    """`alter_locally` takes the request if this broker is the controller; None as its answer: send it again. Its old
    versions name topics, the new ones have ids, so it has both.
    """

    def __init__(
        self,
        host: Host,
        send: Send,
        forwarding: RequestForwarding,
        alter_locally: AlterLocally,
        versions: ProtocolVersions,
    ) -> None:
        self._host = host
        self._send = send
        self._version = versions.alter_partition
        self._forwarding = forwarding
        self._alter_locally = alter_locally
        self._broker: Broker | None = None
        self._pending: dict[Key, tuple[ProcessKey, IsrChangeRequest]] = {}
        self._sent: dict[Key, tuple[ProcessKey, IsrChangeRequest]] = {}
        self._retry_ms: int | None = None

    def registered(self, broker: Broker) -> None:
        """The broker has a new epoch, which the controller requires."""
        self._broker = broker
        self._retry_ms = None

    def request_change(self, peer: ProcessKey, message: IsrChangeRequest) -> None:
        self._pending[message.topic_id, message.partition] = (peer, message)

    @property
    def next_deadline_ms(self) -> int | None:
        return self._retry_ms if self._pending else None

    def tick(self, now_ms: int) -> None:
        if self._sent or not self._pending or self._broker is None:
            return
        if self._retry_ms is not None and now_ms < self._retry_ms:
            return
        self._retry_ms = None
        self._sent = dict(islice(self._pending.items(), MAX_PARTITIONS))
        for key in self._sent:
            del self._pending[key]
        request = self._request(self._broker)
        if self._alter_locally(request, self._on_response):
            return
        self._forwarding.send_request(API_KEY, self._version, ALTER_PARTITION, request, self._on_response)

    def _name_of(self, topic_id: UUID) -> str:
        """Empty for a deleted topic."""
        topic = self._host.image.topic_by_id(topic_id)
        return "" if topic is None else topic.name

    def _request(self, broker: Broker) -> AlterPartitionRequest:
        topics: dict[bytes, list[AlterPartitionPartition]] = {}
        for _, change in self._sent.values():
            topics.setdefault(change.topic_id, []).append(
                AlterPartitionPartition(
                    partition_index=change.partition,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=tuple(
                        IsrMember(broker_id=each, broker_epoch=epoch)
                        for each, epoch in zip(change.isr, change.broker_epochs, strict=True)
                    ),
                    partition_epoch=change.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=broker.id,
            broker_epoch=broker.epoch,
            topics=tuple(
                AlterPartitionTopic(
                    topic_name=self._name_of(UUID(bytes=topic_id)),
                    topic_id=UUID(bytes=topic_id),
                    partitions=tuple(partitions),
                )
                for topic_id, partitions in topics.items()
            ),
        )

    def _on_response(self, response: AlterPartitionResponse | None) -> None:
        sent, self._sent = self._sent, {}
        done: set[Key] = set()
        if response is not None and response.error_code is ErrorCode.NONE:
            ids = {self._name_of(UUID(bytes=topic_id)): topic_id for topic_id, _ in sent}
            for topic in response.topics:
                # A controller on this broker answers with ids, whatever version others get.
                has_name = topic.topic_id == NO_TOPIC_ID
                topic_id = ids.get(topic.topic_name, b"") if has_name else topic.topic_id.bytes
                for result in topic.partitions:
                    key = (topic_id, result.partition_index)
                    if key in sent:
                        done.add(key)
                        self._notify_leader(*sent[key], result)
        for key, row in sent.items():
            if key not in done:
                # A newer change of the same leader replaces this one.
                self._pending.setdefault(key, row)
        if self._pending and not (sent and len(done) == len(sent)):
            self._retry_ms = monotonic_ms() + RETRY_MS

    def _notify_leader(self, peer: ProcessKey, change: IsrChangeRequest, result: AlteredPartition) -> None:
        is_rejected = result.error_code is not ErrorCode.NONE
        self._send(
            peer,
            pack_message(
                IsrChangeDone(
                    slot=change.slot,
                    topic_id=change.topic_id,
                    partition=change.partition,
                    code=int(result.error_code),
                    leader=result.leader_id,
                    leader_epoch=change.leader_epoch if is_rejected else result.leader_epoch,
                    isr=change.isr if is_rejected else list(result.isr),
                    partition_epoch=change.partition_epoch if is_rejected else result.partition_epoch,
                )
            ),
        )
