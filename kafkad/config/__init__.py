"""The configuration: server.properties → frozen settings.

`load` reads the file, and `BrokerConfig` is the result. `topic` and `describe` serve the config requests, `dynamic`
applies changes while the broker runs, `document` writes the docs and the sample file. Each domain has its rows under
`rows/`, topics in kafkad/core/log/settings.py. Nothing in this folder keeps state.
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
