"""What a partition remembers of its producers: sequence numbers, open transactions, snapshots (KIP-98, KIP-890)."""
