"""The consumer group protocol of KIP-848: heartbeats, target assignments, reconciliation, fencing."""
