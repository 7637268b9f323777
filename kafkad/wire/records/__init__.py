"""Records of the internal topics as bytes: `__consumer_offsets`, `__transaction_state`."""
