"""Who asks is known wherever a request goes: principal, listener, client id, address, software and versions."""

from msgspec.structs import replace

from kafkad.core.request_context import ClientIdentity, ClientInformation, KafkaPrincipal, RequestContext
from kafkad.wire.processes.controller_messages import AdminRequest, QuotaCounts, pack_message, unpack_message
from kafkad.wire.processes.coordinator_messages import CoordinatorRequest, pack_coordination, unpack_coordination
from tests.contexts import a_context


def alice() -> RequestContext:
    client = ClientIdentity(KafkaPrincipal("User", "alice"), "orders", "10.0.0.7")
    context = a_context(9, api_key=8, client=client, received_ms=12_345)
    told = ClientInformation("apache-kafka-java", "4.3.0")
    return replace(context, connection=replace(context.connection, listener="INTERNAL", information=told))


def test_a_coordinator_knows_who_asks() -> None:
    asked = CoordinatorRequest(1, 2, 3, alice(), b"body")
    assert unpack_coordination(pack_coordination(asked)) == asked


def test_the_controller_knows_who_asks() -> None:
    request = AdminRequest(1, alice(), b"body")
    assert unpack_message(pack_message(request)) == request


def test_counts_of_clients_name_them() -> None:
    counts = QuotaCounts([(alice().client, 100, 0)])
    assert unpack_message(pack_message(counts)) == counts
