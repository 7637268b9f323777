"""Group and transaction coordinators in the worker that owns their partition, and what they ask other workers."""
