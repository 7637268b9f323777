"""Repeat a run: `python -m tests.simulation.cluster SEED` tells its story, and how it ended."""

import sys

from tests.simulation.cluster.seeds import play
from tests.simulation.seeds import tell

if __name__ == "__main__":
    sys.exit(tell(sys.argv[1:], play))
