"""Incremental fetch sessions (KIP-227): the partitions of a consumer's fetches, and which have changed since."""
