"""The exit codes of the broker's commands and processes."""

OK = 0
FAILED = 1
"""What was running can't go on, or a command did not succeed."""
REFUSED = 2
"""It was never begun: the configuration, an argument or the machine does not allow it."""
