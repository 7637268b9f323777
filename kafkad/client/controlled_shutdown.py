"""ControlledShutdown from outside: others lead in the place of a broker, which somebody then stops."""

from kafkad.client.broker_client import BrokerClient, raise_for
from kafkad.client.reassignments import Partition
from kafkad.core.cluster.control_requests import ControlledShutdownRequest
from kafkad.core.types import NO_BROKER_EPOCH
from kafkad.wire.api_table import CONTROLLED_SHUTDOWN as API_KEY
from kafkad.wire.cluster.broker_requests import CONTROLLED_SHUTDOWN


def controlled_shutdown(client: BrokerClient, broker: int) -> list[Partition]:
    """Ask the controller, on the listener between brokers; returns what the broker still leads, as nobody else can."""
    request = ControlledShutdownRequest(broker_id=broker, broker_epoch=NO_BROKER_EPOCH)
    connection = client.controller_connection()
    response = connection.ask_as_broker(API_KEY, CONTROLLED_SHUTDOWN, CONTROLLED_SHUTDOWN.newest, request)
    raise_for(response.error_code, f"broker {broker} keeps what it leads", None)
    return sorted((each.topic_name, each.partition_index) for each in response.remaining_partitions)
