"""Compaction, as in Apache Kafka's Cleaner: selects the range of a log, filters its records, writes new segments.

All of it is pure: files come through the ports of the core; time and the seed of the hashes are arguments. The modules
that use numpy (everything about records) are imported only by a process that compacts logs.
"""
