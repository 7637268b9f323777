"""The elected controller of a cluster: it alone writes states of partitions, and tells all brokers."""
