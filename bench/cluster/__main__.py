"""`python -m bench.cluster`: run the rows on the selected kinds of clusters, save JSON, print the table."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from bench.brokers.clusters import CLUSTERS
from bench.cluster.control import wait_until_complete
from bench.cluster.rows import ROWS, TITLES
from bench.figures import Better, Figure
from bench.host import floor
from bench.replies import ErrorReply
from bench.report import load, save, table
from bench.scale import FULL, QUICK, Scale

_RESULTS = Path(__file__).parents[1] / "results"


def main() -> int:
    options = _options()
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="kafkad-bench-", dir=options.folder) as folder:
        limits = floor(Path(folder), scale.scratch_gigabytes)
        for kind in options.kinds:
            figures: list[Figure] = []
            for row in options.rows:
                figures += _measure(kind, row, Path(folder) / kind / row, scale)
            save(options.results / f"cluster-{kind}.json", figures, limits)
    results = {kind: load(options.results / f"cluster-{kind}.json") for kind in CLUSTERS}
    print(table({kind: figures for kind, figures in results.items() if figures}, limits, "apache-zookeeper"))
    return 0


def _measure(kind: str, row: str, folder: Path, scale: Scale) -> list[Figure]:
    started = time.monotonic()
    try:
        with CLUSTERS[kind](folder) as cluster:
            wait_until_complete(cluster)
            figures = ROWS[row](cluster, scale, TITLES[row])
    except (ErrorReply, TimeoutError) as error:
        # The failure of one row must not hide the other rows.
        why = f"failed: {' '.join(str(error).split())}"
        figures = [Figure(row=TITLES[row], name="all", unit="", better=Better.LOWER, value=None, why_not=why)]
    print(f"{kind}: {row} took {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    for figure in figures:
        shown = figure.why_not if figure.value is None else f"{figure.value:.4g} {figure.unit}"
        print(f"    {figure.name}: {shown}", file=sys.stderr, flush=True)
    return figures


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=list(CLUSTERS), default=list(CLUSTERS))
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--quick", action="store_true", help="less work in each row: a quick check, not a measurement")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="folder of the JSON files")
    parser.add_argument("--folder", type=Path, default=None, help="folder of the brokers' data")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
