"""Compaction, as in Apache Kafka's Cleaner: which part of a log is cleaned, what stays of it, and how it is written.

All of it is pure: files come through the ports of the core, time and the seed of the hashes are arguments. The modules
that need numpy (everything about records) are imported only by a process that has something to clean.
"""
