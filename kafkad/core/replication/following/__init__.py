"""The following side: what to ask of a leader, what its answer means, and where a log is truncated."""
