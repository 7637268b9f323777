"""A synchronous Kafka client for our own commands: topics, groups, transactions, records of any broker.

It is no part of the broker: the daemon imports nothing from it.
"""
