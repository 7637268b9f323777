"""The elected controller of a cluster: the only writer of partition states, which it announces to all brokers."""
