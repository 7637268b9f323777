"""How a partition's directory becomes a log after a clean stop or a crash: loading, scanning, checkpoints,
leftovers.
"""
