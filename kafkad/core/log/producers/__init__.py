"""The producer state of a partition: sequence numbers, open transactions, snapshots (KIP-98, KIP-890)."""
