"""Real brokers, of Apache Kafka and kafkad, as processes on this machine: start, readiness checks, guaranteed stop.

For the benchmark and for tests. Parts that only tests need are in `tests/tools`.
"""
