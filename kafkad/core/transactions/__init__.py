"""Transaction coordinators (KIP-98, 360, 447, 890): states, epochs, fencing, timeouts.

The shard of one partition of `__transaction_state` is here. Effects of a transaction on the partitions that it writes
(last stable offset, markers, verification of batches) belong to core/log.
"""
