"""Plugins as a process has them after the fork: what keeps counts is its own."""

from copy import deepcopy
from dataclasses import replace

from kafkad.plugin_loading import Plugins


def forked(plugins: Plugins) -> Plugins:
    return replace(
        plugins,
        quota_managers=deepcopy(plugins.quota_managers),
        replication_quota_managers=deepcopy(plugins.replication_quota_managers),
    )
