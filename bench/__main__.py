"""`python -m bench`: run the rows on the selected brokers, save JSON, print the table."""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.brokers.apache import ApacheKafka
from bench.brokers.broker import RunningBroker
from bench.brokers.daemon import InterpretedKafkad, Kafkad
from bench.client_rows import ClientFailed
from bench.compaction.data_sets import DataSets
from bench.figures import Better, Figure
from bench.host import floor
from bench.lifecycle_rows import fresh_folder
from bench.replies import ErrorReply
from bench.report import load, save, table
from bench.rows import ON_DATA_SET, ON_FRESH, ON_RUNNING, TITLES
from bench.scale import FULL, QUICK, Scale

_RESULTS = Path(__file__).parent / "results"
_KINDS: dict[str, type[RunningBroker]] = {"apache": ApacheKafka, "kafkad": Kafkad, "interpreted": InterpretedKafkad}
# Deleted files are kept for a minute by default; the next row needs the disk.
_OVERRIDES = {"log.segment.delete.delay.ms": "1000"}


def main() -> int:
    options = _options()
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="kafkad-bench-", dir=options.folder) as folder:
        data_sets = DataSets(Path(folder) / "data-sets")
        limits = floor(Path(folder), scale.scratch_gigabytes)
        for name in options.broker:
            figures = measure(name, Path(folder) / name, data_sets, scale, options.rows)
            save(options.results / f"{name}.json", figures, limits)
    results = {name: load(options.results / f"{name}.json") for name in _KINDS}
    print(table({name: figures for name, figures in results.items() if figures}, limits))
    return 0


def measure(name: str, folder: Path, data_sets: DataSets, scale: Scale, rows: list[str]) -> list[Figure]:
    """Run the selected rows on a broker of this kind."""
    new_folder = fresh_folder(folder)

    def make() -> RunningBroker:
        return _KINDS[name](new_folder(), _OVERRIDES)

    figures = []
    for row in (row for row in ON_FRESH if row in rows):
        figures += _run(name, row, partial(ON_FRESH[row], make, scale, TITLES[row]))
    for row in (row for row in ON_DATA_SET if row in rows):
        figures += _run(name, row, partial(ON_DATA_SET[row], make, data_sets, scale, TITLES[row]))
    on_running = [row for row in ON_RUNNING if row in rows]
    if on_running:
        with make() as broker:
            for row in on_running:
                figures += _run(name, row, partial(ON_RUNNING[row], broker, scale, TITLES[row]))
    return figures


def _run(name: str, row: str, work: Callable[[], list[Figure]]) -> list[Figure]:
    started = time.monotonic()
    try:
        figures = work()
    except (ErrorReply, ClientFailed, TimeoutError) as error:
        # The failure of one row must not hide the other rows.
        why = f"failed: {' '.join(str(error).split())}"
        figures = [Figure(row=TITLES[row], name="all", unit="", better=Better.LOWER, value=None, why_not=why)]
    print(f"{name}: {row} took {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    for figure in figures:
        shown = figure.why_not if figure.value is None else f"{figure.value:.4g} {figure.unit}"
        print(f"    {figure.name}: {shown}", file=sys.stderr, flush=True)
    return figures


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--broker", nargs="+", choices=list(_KINDS), default=["apache", "kafkad"],
                        help="interpreted: kafkad without compiled modules, after `make native`")  # fmt: skip
    parser.add_argument("--rows", nargs="+", choices=list(TITLES), metavar="ROW",
                        default=[row for row in TITLES if not row.startswith(("lake-", "compact-"))],
                        help=f"some of: {', '.join(TITLES)}; lake-… need the extras spark and delta; default: "
                        "all but lake-… and compact-…")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="less work in each row: a quick check, not a measurement")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="folder of the JSON files")
    parser.add_argument("--folder", type=Path, default=None, help="folder of the brokers' data")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
