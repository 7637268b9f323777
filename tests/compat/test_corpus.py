"""Real text goes in through kcat and Kafka's console producer, and comes back identical through five clients.

Afterwards Kafka's own DumpLogSegments reads every file that the broker wrote. The amount is `corpus_megabytes`.
"""

import filecmp
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.brokers.broker import RunningBroker
from tests.compat.command_clients import console_consume, console_produce, kcat_consume, kcat_produce
from tests.compat.conftest import SUBJECT
from tests.compat.corpus import corpus_bytes, write_parts
from tests.compat.python_clients import CLIENTS, Client
from tests.tools.log_dump import log_rate_limit

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 1 << 20
pytestmark = pytest.mark.timeout(3_600)

IntoFile = Callable[[str, str, int, int, Path], None]


@dataclass(frozen=True, slots=True)
class Part:
    """One partition's lines: where they are written down, and how many there are."""

    topic: str
    partition: int
    lines: Path
    count: int


@dataclass(frozen=True, slots=True)
class Corpus:
    """The broker that holds the corpus, and what it was given."""

    broker: RunningBroker
    parts: tuple[Part, ...]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    """A broker of its own, with segments small enough that there are many."""
    folder = tmp_path_factory.mktemp("corpus")
    overrides = {"log.segment.bytes": str(SEGMENT_BYTES), "num.partitions": "1"}
    with SUBJECT(tmp_path_factory.mktemp("corpus-broker"), overrides) as broker:
        yield Corpus(broker, tuple(_fill(broker, folder)))


def _fill(broker: RunningBroker, folder: Path) -> Iterator[Part]:
    half = corpus_bytes() // 2
    for_kcat = write_parts(folder, [f"kcat-{codec}" for codec in CODECS], half, empty=False)
    for_console = write_parts(folder, [f"console-{codec}" for codec in CODECS], half, empty=True)
    for codec in CODECS:
        lines, count = for_kcat[f"kcat-{codec}"]
        kcat_produce(broker.bootstrap, f"kcat-{codec}", 0, lines, compression=codec)
        yield Part(f"kcat-{codec}", 0, lines, count)
        lines, count = for_console[f"console-{codec}"]
        console_produce(broker.bootstrap, f"console-{codec}", lines, compression=codec)
        yield Part(f"console-{codec}", 0, lines, count)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_python_client_reads_the_corpus_back(corpus: Corpus, client: Client) -> None:
    for part in corpus.parts:
        records = client.consume(corpus.broker.bootstrap, part.topic, part.partition, part.count)
        with open(part.lines, "rb") as lines:
            for offset, (line, record) in enumerate(zip(lines, records, strict=True)):
                assert record.value == line[:-1], f"{part.topic} at offset {offset}"


@pytest.mark.parametrize("consume", [kcat_consume, console_consume])
def test_a_command_line_client_reads_the_corpus_back(corpus: Corpus, consume: IntoFile, tmp_path: Path) -> None:
    for part in corpus.parts:
        output = tmp_path / "read.txt"
        consume(corpus.broker.bootstrap, part.topic, part.partition, part.count, output)
        assert filecmp.cmp(part.lines, output, shallow=False), f"{part.topic} came back changed"


def test_kafkas_own_tool_reads_every_file_without_complaint(corpus: Corpus) -> None:
    """Last in this module: the broker is stopped, so that its indexes are those of a clean shutdown."""
    broker = corpus.broker
    broker.stop()
    files = sorted(
        path for part in corpus.parts for path in (broker.log_dir / f"{part.topic}-{part.partition}").iterdir()
    )
    readable = [path for path in files if path.suffix in (".log", ".index", ".timeindex")]
    assert len([path for path in readable if path.suffix == ".log"]) > len(corpus.parts), "too few segments"
    assert log_rate_limit(readable) == []
    empty = [path for path in readable if path.stat().st_size == 0]
    assert {path.suffix for path in empty} <= {".index"}, "these would pass any check"
    # The first batch of a segment has no entry in the offset index; large ones may be alone in theirs.
    assert len(empty) < len(readable) / 6
    broker.start()
