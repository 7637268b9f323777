"""Compaction in the owner of the logs."""
