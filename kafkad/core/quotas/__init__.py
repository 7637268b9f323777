"""Client quotas: how much a client may produce and fetch per second, and how long it is throttled above that."""
