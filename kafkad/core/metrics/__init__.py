"""Metrics: Kafka's names, the counters of processes, and the snapshots for reporters."""
