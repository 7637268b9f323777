"""Three brokers under load, and when they die: `python -m bench.cluster`."""
