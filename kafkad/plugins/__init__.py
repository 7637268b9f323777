"""The built-in plugins, loaded like all others.

A plugin that registers an object of the same name replaces a default of ours.
"""

BUILT_IN = (
    "kafkad.plugins.retention",
    "kafkad.plugins.retention_after_export",
    "kafkad.plugins.compaction",
    "kafkad.plugins.leader_election",
    "kafkad.plugins.client_quotas",
    "kafkad.plugins.replication_quota",
    "kafkad.plugins.replica_selectors",
    "kafkad.plugins.prometheus",
    "kafkad.plugins.group_assignors",
)
"""Module names, in the order in which they are registered. Importing one must cost next to nothing."""
