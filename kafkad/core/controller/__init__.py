"""The metadata rules: topics, assignment, leaders, configs, producer ids; over a `CoordinationStore`.

`controller` is the controller of a single broker; `elected` extends it for a cluster.
"""
