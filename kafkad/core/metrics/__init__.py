"""Metrics: Kafka's names, the counters of processes, and the snapshot that reporters get."""
