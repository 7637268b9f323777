"""Consumer groups and the offsets that they commit: the rules of the partitions of `__consumer_offsets`."""
