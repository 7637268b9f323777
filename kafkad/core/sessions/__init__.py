"""Incremental fetch sessions (KIP-227): the partitions of a client's fetches, and their changes."""
