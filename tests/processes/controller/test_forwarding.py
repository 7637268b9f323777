"""How a broker asks the controller on another one, and what it makes of the answers."""

import socket
from types import SimpleNamespace
from typing import cast

import pytest

from kafkad.core.cluster.control_requests import AlterPartitionRequest, ControlledShutdownRequest
from kafkad.core.connections.log_rate_limit import LogRateLimit
from kafkad.core.controller.image import Broker, Listener, MetadataImage
from kafkad.core.controller.topics.topics import TopicResult
from kafkad.core.errors import ErrorCode
from kafkad.processes.controller.ports import Host
from kafkad.processes.controller.requests.forwarding import RequestForwarding, as_created
from kafkad.processes.runtime.connection_timeouts import ConnectionTimeouts
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.wire import api_table
from kafkad.wire.cluster.alter_partition import ALTER_PARTITION
from kafkad.wire.cluster.broker_requests import CONTROLLED_SHUTDOWN


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        (ErrorCode.NONE, ErrorCode.NONE),
        (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.NONE),
        (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_a_topic_that_another_client_made_first_is_made(answered: ErrorCode, told: ErrorCode) -> None:
    """Metadata said TOPIC_ALREADY_EXISTS of a topic that this broker was not told of yet, which no client expects."""
    assert as_created(TopicResult(name="orders", code=answered)).code is told


def test_what_a_broker_asks_by_itself_does_not_wait_for_the_answer_to_anything_else() -> None:
    """The controller answers ControlledShutdown when other brokers lead, and in-sync replicas change meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        at = Listener(name="PLAINTEXT", host="127.0.0.1", port=listener.getsockname()[1], security_protocol="PLAINTEXT")
        controller = Broker(id=2, epoch=1, listeners=(at,), rack=None)
        image = MetadataImage(brokers={2: controller}, controller_id=2)
        host = SimpleNamespace(image=image, broker_id=1, inter_broker_listener="PLAINTEXT")
        loop = EventLoop()
        forwarding = RequestForwarding(
            loop, cast(Host, host), ConnectionTimeouts(), LogRateLimit(), lambda _peer, _frame: True
        )
        shutdown = ControlledShutdownRequest(broker_id=1, broker_epoch=5)
        forwarding.send_request(api_table.CONTROLLED_SHUTDOWN, 3, CONTROLLED_SHUTDOWN, shutdown, lambda _answer: None)
        alter = AlterPartitionRequest(broker_id=1, broker_epoch=5, topics=())
        forwarding.send_request(api_table.ALTER_PARTITION, 3, ALTER_PARTITION, alter, lambda _answer: None)
        loop.run_once(0)
        asked = set()
        for _ in range(2):
            connection, _address = listener.accept()
            with connection:
                connection.settimeout(20)
                loop.run_once(100)
                asked.add(int.from_bytes(connection.recv(6, socket.MSG_WAITALL)[4:]))
        assert asked == {api_table.CONTROLLED_SHUTDOWN, api_table.ALTER_PARTITION}
        forwarding.close()
