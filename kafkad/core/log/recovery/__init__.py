"""From a partition's directory to a log, after a clean stop or a crash: loading, scanning, checkpoints, leftovers."""
