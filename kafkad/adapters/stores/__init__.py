"""The coordination store behind `kafkad.core.coordination_store`: SQLite for one broker, ZooKeeper for a cluster."""
