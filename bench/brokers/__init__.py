"""Real brokers, Apache Kafka's and ours, as processes on this machine: started, asked whether they serve, surely gone.

The benchmark measures them and the tests talk to them. What only tests want of a broker is in `tests/tools`.
"""
