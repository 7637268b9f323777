"""Moves of partitions to other log directories while they are written (AlterReplicaLogDirs)."""
