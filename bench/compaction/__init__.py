"""Compaction: each broker compacts the same logs, which Apache Kafka has written (rows `compact-…`)."""
