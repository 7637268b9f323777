"""A million real lines through a broker into a table, and questions to the table: `python lakehouse.py`.

The lines are those of the Python files on this machine. Needs `pip install 'kafkad[export]'`, and nothing that runs:
the broker is a throw-away one. With --format delta the extra delta, with --engine spark the extra spark and Java.
"""

import argparse
import json
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

TOPIC = "lines"
PARTITIONS = 4
BAR = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--format", choices=["parquet", "delta"], default="parquet")
    parser.add_argument("--engine", choices=["local", "spark"], default="local")
    parser.add_argument("--out", help="the folder of the table; without it a temporary one")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, throw_away_broker() as bootstrap:
        out = asked.out or f"{folder}/table"
        produced = fill(bootstrap, asked.lines)
        options = ["--topic", TOPIC, "--out", out, "--format", asked.format, "--bootstrap-server", bootstrap]
        for _ in range(2):
            # The second run finds nothing new: the table itself says up to where it goes.
            kafkad("run", *options, "--engine", asked.engine, "--jobs", "2")
        kafkad("verify", *options)
        table = read(kafkad("files", *options, is_shown=False).split())
    assert table.num_rows == produced, f"{produced} lines were produced, the table has {table.num_rows}"
    ask(table)


@contextmanager
def throw_away_broker() -> Iterator[str]:
    command = [sys.executable, "-m", "kafkad", "dev", "--json", "--override", f"num.partitions={PARTITIONS}"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert running.stdout is not None
        yield json.loads(running.stdout.readline())["bootstrap"]
    finally:
        running.terminate()
        running.wait()


def lines() -> Iterator[tuple[bytes, bytes]]:
    """The name of a file, and one of its lines; from the beginning again when all have been read."""
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
    files = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    while True:
        for path in files:
            name = "/".join(path.parts[-2:]).encode()
            yield from ((name, line) for line in path.read_bytes().splitlines())


def fill(bootstrap: str, count: int) -> int:
    """In a pipeline, this is your producers. A line of the input is a key, a tab and a value."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "kafkad", "produce", TOPIC, "--key-separator", "\t", "--compression", "zstd"]
    with subprocess.Popen([*command, "--bootstrap-server", bootstrap], stdin=subprocess.PIPE) as producer:
        assert producer.stdin is not None
        for key, line in islice(lines(), count):
            producer.stdin.write(b"%s\t%s\n" % (key, line))
    assert producer.returncode == 0
    print(f"{count:,} lines produced in {time.monotonic() - began_s:.1f} s")
    return count


def kafkad(verb: str, *options: str, is_shown: bool = True) -> str:
    command = [sys.executable, "-m", "kafkad", "export", verb, *options]
    if is_shown:
        print(f"$ kafkad export {verb} {' '.join(options)}")
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    if is_shown:
        print(said, end="")
    return said


def read(paths: list[str]) -> pa.Table:
    return ds.dataset(paths).to_table(columns=["key", "value", "timestamp"])


def ask(table: pa.Table) -> None:
    """Which file has most lines, and how long are lines?"""
    files = table.group_by("key").aggregate([([], "count_all")]).sort_by([("count_all", "descending")])
    plot("files with most lines", files["key"].cast(pa.string()).to_pylist()[:8], files["count_all"].to_pylist()[:8])
    sizes = pc.min_element_wise(pc.binary_length(table["value"]), pa.scalar(120, pa.int32()))
    lengths = pa.table({"from": pc.multiply(pc.divide(sizes, 20), 20)})
    counted = lengths.group_by("from").aggregate([([], "count_all")]).sort_by("from")
    plot("bytes of a line, from", [str(each) for each in counted["from"].to_pylist()], counted["count_all"].to_pylist())


def plot(title: str, names: list[str], values: list[int]) -> None:
    print(f"\n{title}")
    width = max(map(len, names))
    for name, value in zip(names, values, strict=True):
        print(f"{name:>{width}} {'█' * max(1, round(BAR * value / max(values)))} {value:,}")


if __name__ == "__main__":
    main()
