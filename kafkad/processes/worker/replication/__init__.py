"""The replicas of a worker: partitions that it leads, logs that follow a leader elsewhere, and changes of the role."""
