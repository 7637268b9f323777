"""Loading a partition directory as a log, after a clean stop or a crash: recovery, checkpoints, leftover files."""
