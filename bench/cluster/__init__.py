"""Three brokers under load and during failures: `python -m bench.cluster`."""
