"""A synchronous Kafka client for our own commands: topics, groups, transactions, records of any broker.

No part of the broker: the daemon imports nothing of it.
"""
