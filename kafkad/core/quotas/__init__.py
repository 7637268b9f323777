"""Client quotas: the bytes per second that a client may produce and fetch, and the throttle time above that."""
