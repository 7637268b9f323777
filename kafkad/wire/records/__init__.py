"""Encodes and decodes the records of internal topics: `__consumer_offsets`, `__transaction_state`."""
