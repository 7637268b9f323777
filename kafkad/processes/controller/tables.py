"""The configuration for the controller's responses: which options may be altered, and their present values.

Stored changes come from the metadata, the file's values from the supervisor; kafkad.config combines them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kafkad.config import BrokerConfig
from kafkad.config.altering import ConfigTables
from kafkad.config.describe import DescribedConfig, describe_broker, describe_cluster_default, describe_topic
from kafkad.config.dynamic import apply_dynamic, in_force, with_static
from kafkad.config.entities.group import describe_group
from kafkad.core.controller.configs import ResourceType
from kafkad.core.controller.image import DEFAULT_BROKER, MetadataImage
from kafkad.core.settings.option import Setting


class LiveTables:
    """Implements `ConfigTables` of handlers/controller/requests/controller_view.py for the present configuration."""

    def __init__(
        self, broker: BrokerConfig, cleanup_policies: frozenset[str], topic_configs: Mapping[str, Setting]
    ) -> None:
        self._tables = ConfigTables(broker=broker, cleanup_policies=cleanup_policies, topic_configs=topic_configs)

    @property
    def broker(self) -> BrokerConfig:
        return self._tables.broker

    def overlay(self, image: MetadataImage) -> None:
        """The stored options of brokers have changed."""
        configs = image.broker_configs
        own = configs.get(str(self.broker.node_id), {})
        self._set(apply_dynamic(self.broker, configs.get(DEFAULT_BROKER, {}), own))

    def reread(self, static: Mapping[str, str]) -> None:
        """The configuration file was read again."""
        self._set(with_static(self.broker, static))

    def _set(self, broker: BrokerConfig) -> None:
        self._tables = replace(self._tables, broker=broker)

    def is_list(self, resource_type: ResourceType, key: str) -> bool:
        return self._tables.is_list(resource_type, key)

    def default_value(self, resource_type: ResourceType, key: str) -> str | None:
        return self._tables.default_value(resource_type, key)

    def in_force(self, resource_type: ResourceType, stored: Mapping[str, str]) -> Mapping[str, str]:
        return self._tables.in_force(resource_type, stored)

    def validate_topic(self, configs: Mapping[str, str]) -> None:
        self._tables.validate_topic(configs)

    def validate_group(self, configs: Mapping[str, str]) -> None:
        self._tables.validate_group(configs)

    def validate_broker(self, configs: Mapping[str, str], *, per_broker: bool) -> None:
        self._tables.validate_broker(configs, per_broker=per_broker)

    def describe_topic(self, overrides: Mapping[str, str]) -> Iterator[DescribedConfig]:
        return describe_topic(self.broker, overrides, self._tables.topic_configs)

    def describe_group(self, configs: Mapping[str, str]) -> Iterator[DescribedConfig]:
        return describe_group(self.broker, configs)

    def describe_broker(self) -> Iterator[DescribedConfig]:
        return describe_broker(self.broker)

    def describe_cluster_default(self) -> Iterator[DescribedConfig]:
        return describe_cluster_default(self.broker)


def ignored_options(broker_configs: Mapping[str, Mapping[str, str]], node_id: int) -> list[str]:
    """The options with a stored value that is not in effect on this broker."""
    stored = [broker_configs.get(name, {}) for name in (DEFAULT_BROKER, str(node_id))]
    return sorted({name for configs in stored for name in set(configs) - set(in_force(configs))})
