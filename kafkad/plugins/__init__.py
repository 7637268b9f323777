"""The built-in plugins, loaded like all others.

Objects of other plugins with the same name replace the built-in objects.
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
"""Module names in the order of registration. The modules must be cheap to import."""
