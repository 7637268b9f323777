"""The leader of a partition with several replicas: how far its followers are, who is in sync, what is committed."""
