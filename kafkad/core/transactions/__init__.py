"""Transaction coordinators (KIP-98, 360, 447, 890): states, epochs, fencing, timeouts.

The shard of one partition of `__transaction_state` is here. The effects of a transaction on its partitions (last stable
offset, markers, verification of batches) are in core/log.
"""
