"""The replicas of a worker: logs that follow a leader elsewhere."""
