"""Transactions as their coordinator decides them (KIP-98, 360, 447, 890): states, epochs, fencing, timeouts.

The shard of one partition of `__transaction_state` is here. What a transaction does to the partitions that it writes
(last stable offset, markers, verification of batches) belongs to core/log.
"""
