"""Transactions as the workers of a broker see them: markers, and the verification of partitions (KIP-890)."""
