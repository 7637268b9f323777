"""Repeat a run: `python -m tests.simulation SEED` tells its story, and how it ended."""

import sys

from tests.simulation.seeds import play


def main() -> int:
    code = 0
    for text in sys.argv[1:]:
        failure = play(int(text))
        if failure is None:
            print(f"seed {text}: nothing was violated")
        else:
            print(f"{failure.story}\nseed {text}: {failure.what}")
        code = code or failure is not None
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
