"""Partitions that go from one log directory to another while they are written (AlterReplicaLogDirs)."""
