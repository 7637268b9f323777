"""The metadata rules: topics, assignment, leaders, configs, producer ids; over a `CoordinationStore`.

`controller` is that of a single broker; `elected` makes it the one of a cluster.
"""
