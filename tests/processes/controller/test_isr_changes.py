"""Changes of the ISR that leaders here want: what the controller is asked for."""

from types import SimpleNamespace
from typing import cast
from uuid import UUID

from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.cluster.control_requests import AlterPartitionRequest, IsrMember
from kafkad.core.cluster.protocol_versions import protocol_versions
from kafkad.core.controller.image import Broker, MetadataImage
from kafkad.processes.controller.ports import Host
from kafkad.processes.controller.requests.forwarding import RequestForwarding
from kafkad.processes.controller.requests.isr_changes import IsrChanges, OnResponse
from kafkad.wire.processes.controller_messages import IsrChangeRequest

TOPIC = UUID(int=7)


def test_the_controller_hears_in_which_lives_brokers_have_the_records() -> None:
    asked: list[AlterPartitionRequest] = []

    def alter_here(request: AlterPartitionRequest, _answered: OnResponse) -> bool:
        asked.append(request)
        return True

    host = cast(Host, SimpleNamespace(image=MetadataImage()))
    nobody = cast(RequestForwarding, None)
    changes = IsrChanges(host, lambda _peer, _frame: True, nobody, alter_here, protocol_versions("3.9"))
    changes.request_change(ProcessKey("worker", 0), IsrChangeRequest(5, TOPIC.bytes, 3, 7, 2, [1, 3], [-1, 40]))
    changes.registered(Broker(id=1, epoch=9, listeners=(), rack=None))
    changes.tick(0)
    ((partition,),) = (topic.partitions for topic in asked[0].topics)
    assert partition.new_isr_with_epochs == (IsrMember(broker_id=1), IsrMember(broker_id=3, broker_epoch=40))
