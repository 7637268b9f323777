"""Incremental fetch sessions (KIP-227): what a consumer asked before and what moved since."""
