"""Repeat a run: `python -m tests.simulation SEED` tells its story, and how it ended."""

import sys

from tests.simulation.seeds import play, tell

if __name__ == "__main__":
    sys.exit(tell(sys.argv[1:], play))
