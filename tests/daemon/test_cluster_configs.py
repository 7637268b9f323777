"""Each broker of a cluster answers for its own configuration, and for no other's; that of all is everybody's."""

import pytest
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import i8

from bench.brokers.processes import WITHIN_S
from kafkad.client.connection import BrokerConnection
from tests.daemon.cluster import Cluster

OF_BROKER = i8(4)
OPTION = "log.segment.bytes"


def connection(cluster: Cluster, broker: int) -> BrokerConnection:
    return BrokerConnection("127.0.0.1", cluster.brokers[broker].port, WITHIN_S)


def described(cluster: Cluster, broker: int, name: str) -> str | None:
    """What the broker says of OPTION, or why it does not."""
    asked = connection(cluster, broker)
    resource = DescribeConfigsResource(resource_type=OF_BROKER, resource_name=name, configuration_keys=(OPTION,))
    (result,) = asked.call(DescribeConfigsRequest(resources=(resource,)), DescribeConfigsResponse).results
    asked.close()
    return result.configs[0].value if result.configs else result.error_message


def altered(cluster: Cluster, broker: int, name: str, value: str) -> str | None:
    """Why it was refused; None: it was not."""
    asked = connection(cluster, broker)
    config = AlterableConfig(name=OPTION, config_operation=i8(0), value=value)
    resource = AlterConfigsResource(resource_type=OF_BROKER, resource_name=name, configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    (result,) = asked.call(request, IncrementalAlterConfigsResponse).responses
    asked.close()
    return result.error_message


@pytest.mark.timeout(600)
def test_a_broker_answers_for_itself_alone(cluster: Cluster) -> None:
    assert altered(cluster, 1, "", "2000000") is None
    for broker in (1, 2, 3):
        other = broker % 3 + 1
        text = f"Unexpected broker id, expected {broker} or empty string, but received {other}"
        assert described(cluster, broker, str(other)) == text
        text = f"Unexpected broker id, expected {broker}, but received {other}"
        assert altered(cluster, broker, str(other), "2000000") == text
        assert altered(cluster, broker, str(broker), str(2_000_000 + broker)) is None
        assert described(cluster, broker, str(broker)) == str(2_000_000 + broker)
    assert described(cluster, 3, "") == "2000000"
