"""Commands for clusters: brokers, reassignments of partitions, leader elections."""
