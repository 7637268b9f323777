"""Who is refused hears who leads instead, and at which address of the listener that it uses."""

from kafkad.core.controller.image import Broker, Listener
from kafkad.core.request_context import ANONYMOUS, ClientIdentity, ConnectionContext, RequestContext
from kafkad.handlers.partitions.leader_hints import leader_hints
from tests.handlers.views import a_partition, a_topic, a_view

CONTEXT = RequestContext(ClientIdentity(ANONYMOUS, ""), ConnectionContext("EXTERNAL", "", ("here", 1)), 1, 17, 0, 0)


def test_the_leader_is_named_with_its_address_on_the_clients_listener() -> None:
    listeners = tuple(
        Listener(name=name, host=f"{name.lower()}-host", port=port, security_protocol="PLAINTEXT")
        for name, port in (("EXTERNAL", 2000), ("INTERNAL", 1000))
    )
    topic = a_topic("one", 5, a_partition(leader=9, leader_epoch=4, replicas=(9,), isr=(9,)))
    brokers = (Broker(id=9, epoch=1, listeners=listeners, rack="r"), Broker(id=8, epoch=1, listeners=(), rack=None))
    view = a_view(topic, brokers=brokers)
    for name in ("one", topic.id.bytes):
        hints = leader_hints([(name, 0), (name, 7)], CONTEXT, view)
        assert hints is not None
        assert hints.leaders == {(name, 0): (9, 4), (name, 7): (-1, -1)}
        assert hints.nodes == [(9, "external-host", 2000, "r")]
    assert leader_hints([], CONTEXT, view) is None
