"""The rules of the tables of options for config requests.

`ConfigTables` implements `ConfigRules` of kafkad.core.controller.configs: which options are lists, which values options
inherit, and which changes are rejected.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkad.config.dynamic import in_force, validate_dynamic
from kafkad.config.entities.broker import BrokerConfig
from kafkad.config.entities.group import validate_group_configs
from kafkad.config.entities.log_defaults import topic_defaults
from kafkad.config.entities.topic import validate_topic_configs
from kafkad.config.table import TOPIC_TABLE, find
from kafkad.core.controller.configs import ResourceType
from kafkad.core.settings.option import Setting, SettingType
from kafkad.core.settings.values import value_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigTables:
    """The tables of one broker; `cleanup_policies` and `topic_configs` come from plugins."""

    broker: BrokerConfig
    cleanup_policies: frozenset[str] = frozenset()
    topic_configs: Mapping[str, Setting] = field(default_factory=dict)

    def is_list(self, resource_type: ResourceType, key: str) -> bool:
        setting = self._find(resource_type, key)
        return setting is not None and setting.type is SettingType.LIST

    def default_value(self, resource_type: ResourceType, key: str) -> str | None:
        if resource_type is ResourceType.TOPIC:
            inherited = topic_defaults(self.broker.values)
            if key in inherited:
                return value_text(inherited[key])
        setting = self._find(resource_type, key)
        return setting.default_text if setting is not None else None

    def in_force(self, resource_type: ResourceType, stored: Mapping[str, str]) -> Mapping[str, str]:
        return in_force(stored) if resource_type is ResourceType.BROKER else stored

    def validate_topic(self, configs: Mapping[str, str]) -> None:
        validate_topic_configs(self.broker, configs, self.cleanup_policies, self.topic_configs)

    def validate_broker(self, configs: Mapping[str, str], *, per_broker: bool) -> None:
        validate_dynamic(self.broker, configs, per_broker=per_broker, cleanup_policies=self.cleanup_policies)

    def validate_group(self, configs: Mapping[str, str]) -> None:
        validate_group_configs(self.broker, configs)

    def _find(self, resource_type: ResourceType, key: str) -> Setting | None:
        if resource_type is ResourceType.TOPIC:
            return TOPIC_TABLE.get(key) or self.topic_configs.get(key)
        return find(key)
