"""The settings for cleaning the logs of a topic, parsed when a configuration changes.

A topic with an unreadable value is not cleaned: its retention is unknown.
"""

from collections.abc import Container, Mapping
from dataclasses import replace
from uuid import UUID

from kafkad.config import BrokerConfig, topic_log_config, with_plugin_configs
from kafkad.config.entities.topic import unreadable_topic_configs
from kafkad.core.controller.image import Topic
from kafkad.core.log.settings import LogConfig
from kafkad.core.settings.option import Setting


class TopicSettings:
    """Parsed settings with their configurations: each change of one creates a new object.

    `topic_configs`: the topic configs of plugins.
    """

    def __init__(self, topic_configs: Mapping[str, Setting]) -> None:
        self._topic_configs = topic_configs
        self._read: dict[UUID, tuple[BrokerConfig, Mapping[str, str], LogConfig]] = {}

    def of(self, topic: Topic, broker: BrokerConfig) -> LogConfig:
        """The present settings of `topic`."""
        cached = self._read.get(topic.id)
        if cached is not None and cached[0] is broker and cached[1] is topic.configs:
            return cached[2]
        settings = with_plugin_configs(topic_log_config(broker, topic.configs), topic.configs, self._topic_configs)
        if unreadable_topic_configs(topic.configs):
            settings = replace(settings, cleanup_policy=frozenset())
        self._read[topic.id] = (broker, topic.configs, settings)
        return settings

    def keep(self, topic_ids: Container[UUID]) -> None:
        """Forget all other topics."""
        self._read = {topic_id: cached for topic_id, cached in self._read.items() if topic_id in topic_ids}
