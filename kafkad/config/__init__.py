"""The configuration: server.properties → frozen settings.

`load` reads it, `BrokerConfig` holds it, `topic` and `describe` answer the config requests, `dynamic` changes it while
the broker runs, `document` writes the docs and the sample file. Each domain declares its own rows under `rows/` or, for
topics, in kafkad/core/log/settings.py. Nothing in here keeps state.
"""

from kafkad.config.entities.broker import (
    BrokerConfig,
    LogDirsConfig,
    MetricsConfig,
    NetworkConfig,
    PluginsConfig,
    RuntimeConfig,
    TopicsConfig,
)
from kafkad.config.entities.topic import (
    topic_log_config,
    validate_topic_config,
    validate_topic_configs,
    with_plugin_configs,
)
from kafkad.config.listeners import Endpoint, Listener
from kafkad.config.load import default_file, load
from kafkad.config.problems import ConfigProblem, InvalidConfiguration

__all__ = [
    "BrokerConfig",
    "ConfigProblem",
    "Endpoint",
    "InvalidConfiguration",
    "Listener",
    "LogDirsConfig",
    "MetricsConfig",
    "NetworkConfig",
    "PluginsConfig",
    "RuntimeConfig",
    "TopicsConfig",
    "default_file",
    "load",
    "topic_log_config",
    "validate_topic_config",
    "validate_topic_configs",
    "with_plugin_configs",
]
