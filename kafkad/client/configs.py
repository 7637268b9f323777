"""Configs of topics and brokers, over a `BrokerClient`."""

from collections.abc import Mapping, Sequence

from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.incremental_alter_configs.v1.request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kio.schema.incremental_alter_configs.v1.response import IncrementalAlterConfigsResponse
from kio.static.primitive import i8

from kafkad.client.broker_client import BrokerClient, raise_for
from kafkad.client.connection import BrokerConnection

OF_TOPIC = i8(2)
OF_BROKER = i8(4)
_SET, _DELETE = i8(0), i8(1)
_DEFAULT_CONFIG_SOURCE = 5


def topic_configs(client: BrokerClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The configs of each topic that are set anywhere, i.e. not Kafka's defaults."""
    resources = tuple(
        DescribeConfigsResource(resource_type=OF_TOPIC, resource_name=name, configuration_keys=None) for name in names
    )
    response = client.any_broker().call(DescribeConfigsRequest(resources=resources), DescribeConfigsResponse)
    configs: dict[str, dict[str, str]] = {}
    for result in response.results:
        failed = f"the configs of topic {result.resource_name!r} can't be read"
        raise_for(result.error_code, failed, result.error_message)
        configs[result.resource_name] = {
            config.name: config.value or ""
            for config in result.configs
            if config.config_source != _DEFAULT_CONFIG_SOURCE
        }
    return configs


def touch_topic_config(client: BrokerClient, name: str) -> None:
    """Trigger a change of a topic's configuration without changes, so that failed cleanups are retried."""
    alter_configs(client.controller_connection(), OF_TOPIC, name, {})


def alter_configs(connection: BrokerConnection, kind: i8, name: str, options: Mapping[str, str | None]) -> None:
    """Set options of the topic or broker `name`; None resets to the default."""
    configs = tuple(
        AlterableConfig(name=option, config_operation=_DELETE if value is None else _SET, value=value)
        for option, value in options.items()
    )
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    for result in connection.call(request, IncrementalAlterConfigsResponse).responses:
        resource_text = f"topic {name!r}" if kind == OF_TOPIC else f"broker {name}"
        raise_for(result.error_code, f"{resource_text} was not changed", result.error_message)
