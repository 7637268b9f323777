"""Compaction: the same logs, written by Apache Kafka, are compacted by each broker (rows `compact-…`)."""
