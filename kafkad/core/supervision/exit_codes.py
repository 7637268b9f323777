"""The exit codes of the broker's commands and processes."""

OK = 0
FAILED = 1
"""A running broker can't continue, or a command failed."""
REFUSED = 2
"""Rejected before it began: the configuration, an argument or the machine does not allow it."""
