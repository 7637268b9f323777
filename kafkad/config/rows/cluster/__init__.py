"""Options of clusters: replication, ZooKeeper, KRaft."""
