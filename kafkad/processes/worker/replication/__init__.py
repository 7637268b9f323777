"""The replicas of a worker: led partitions, followed logs, and changes of the role."""
