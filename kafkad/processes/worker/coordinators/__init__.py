"""Group and transaction coordinators in the worker that owns their partition, and their messages to other workers."""
