"""A synchronous Kafka client for kafkad's commands: topics, groups, transactions and records of any broker.

The broker does not import it.
"""
