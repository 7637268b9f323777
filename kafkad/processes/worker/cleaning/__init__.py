"""The owner's part in the compaction of its logs."""
