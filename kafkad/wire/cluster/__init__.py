"""Encodes and decodes requests between brokers of a cluster on ZooKeeper (kafkad.core.cluster has their values)."""
