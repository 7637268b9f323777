"""`kafkad export` of several topics: each has a table of its own, whatever becomes of the others."""

import json
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from kafkad.cli import main
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS, format_offsets
from kafkad.core.types import TopicPartition
from tests.lakehouse.export.reading.test_log_directories import partition, plain

COUNTS = {"shop.orders": 3, "shop.users": 2, "other": 1, "__consumer_offsets": 5}


class Lake:
    """Topics of a log directory, and the folder of their tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: dict[str, int] = {}
        for name, count in COUNTS.items():
            self.add(name, count)

    def add(self, topic: str, count: int) -> None:
        self.counts[topic] = count
        partition(self.folder / "log", f"{topic}-0", *map(plain, range(count)))
        rows = {TopicPartition(each, 0): end for each, end in self.counts.items()}
        (self.folder / "log" / HIGH_WATERMARKS).write_text(format_offsets(rows))

    def done(self, verb: str, *options: str) -> Result:
        place = ["--bootstrap-server", "none", "--source", "files", "--log-dirs", str(self.folder / "log")]
        return CliRunner().invoke(main, ["export", verb, *place, *options], catch_exceptions=False)

    def run(self, *options: str) -> str:
        done = self.done("run", "--out", f"{self.folder}/lake/{{topic}}", *options)
        assert done.exit_code == 0, done.output
        return done.stdout

    def tables(self) -> dict[str, int]:
        """Records by the name of the folder."""
        folders = sorted((self.folder / "lake").iterdir())
        paths = {folder.name: list(folder.glob("*.parquet")) for folder in folders}
        return {name: sum(pq.ParquetFile(path).metadata.num_rows for path in each) for name, each in paths.items()}

    def conf_file(self, *lines: str) -> Sequence[str]:
        file = self.folder / "export.toml"
        file.write_text("\n".join(lines))
        return "--conf-file", str(file)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def test_topics_that_are_named_have_tables_of_their_own(lake: Lake) -> None:
    page = lake.folder / "export.prom"
    said = lake.run("--topic", "shop.orders, other", "--json", "--metrics-file", str(page))
    rows = [json.loads(line) for line in said.splitlines()]
    assert {row["topic"]: row["records"] for row in rows} == {"shop.orders": 3, "other": 1}
    assert lake.tables() == {"shop.orders": 3, "other": 1}
    assert 'kafkad_export_records{name="shop.orders",topic="shop.orders"} 3.0' in page.read_text()
    assert 'kafkad_export_records{name="other",topic="other"} 1.0' in page.read_text()
    assert lake.run("--topic", "shop.orders,other") == "nothing new in shop.orders\nnothing new in other\n"


def test_a_pattern_finds_topics_by_their_whole_names_and_later_ones(lake: Lake) -> None:
    lake.run("--topic-pattern", r"shop\..*|.*offsets")
    assert lake.tables() == {"shop.orders": 3, "shop.users": 2}
    lake.add("shop.later", 4)
    lake.add("workshop.none", 4)
    lake.run("--topic-pattern", r"shop\..*|.*offsets")
    assert lake.tables() == {"shop.later": 4, "shop.orders": 3, "shop.users": 2}


def test_a_file_has_options_of_each_table_and_of_all(lake: Lake) -> None:
    file = lake.conf_file(
        f'out = "{lake.folder}/lake/{{topic}}"',
        "[[tables]]",
        'topic = "shop.orders"',
        'format = "delta"',
        "[[tables]]",
        'topic = "other"',
        'partition-by = "day"',
        f'out = "{lake.folder}/by-day"',
    )
    assert lake.done("run", *file).exit_code == 0
    assert lake.tables() == {"shop.orders": 3}
    assert (lake.folder / "lake" / "shop.orders" / "_delta_log").exists()
    assert list((lake.folder / "by-day").glob("date=*/*.parquet"))
    (path,) = lake.done("files", *file, "--topic", "other").stdout.splitlines()
    assert path.startswith(f"{lake.folder}/by-day/date=")
    assert lake.done("run", *file, "--topic", "other").stdout == "nothing new in other\n"
    for topic, said in (
        ((), "files needs one table: select it by --topic"),
        (("--topic", "x"), "0 tables have topic 'x'"),
    ):
        done = lake.done("files", *file, *topic)
        assert done.exit_code == 2 and said in done.stderr


def test_a_topic_chooses_the_table_that_names_or_finds_it(lake: Lake) -> None:
    out = f'out = "{lake.folder}/lake/{{topic}}"'
    tables = [
        "[[tables]]",
        'topic = "other, elsewhere"',
        "[[tables]]",
        r"topic-pattern = 'shop\..*'",
        'format = "delta"',
    ]
    file = lake.conf_file(out, *tables)
    for topic in ("shop.users", "other"):
        assert f"of {topic}," in lake.done("run", *file, "--topic", topic).stdout
        assert len(lake.done("files", *file, "--topic", topic).stdout.splitlines()) == 1
    assert lake.tables() == {"other": 1, "shop.users": 2}
    assert (lake.folder / "lake" / "shop.users" / "_delta_log").exists()


def test_what_becomes_of_one_table_is_nothing_to_the_others(lake: Lake) -> None:
    done = lake.done("run", "--topic", "nowhere,other", "--out", f"{lake.folder}/lake/{{topic}}")
    assert done.exit_code == 1
    first, last = done.stderr.splitlines()
    assert first.startswith("kafkad: nowhere: no partition of topic 'nowhere'")
    assert last == "kafkad: 1 of 2 tables are not up to date"
    assert lake.tables() == {"other": 1}


@pytest.mark.parametrize(
    ("verb", "options", "code", "said"),
    [
        ("run", ["--topic", "a,b", "--out", "/lake"], 2, "use {topic} in --out (and --table)"),
        ("run", ["--topic-pattern", ".*", "--out", "/lake"], 2, "use {topic} in --out (and --table)"),
        ("run", ["--topic-pattern", "(", "--out", "/lake/{topic}"], 2, "--topic-pattern: "),
        ("run", ["--topic-pattern", "x", "--out", "/lake/{topic}"], 1, "no topic matches 'x'"),
        ("run", ["--topic", "a", "--topic-pattern", "a", "--out", "/lake"], 2, "either --topic or --topic-pattern"),
        ("run", ["--out", "/lake"], 2, "either --topic or --topic-pattern"),
        ("run", ["--topic", "a,,b", "--out", "/lake/{topic}"], 2, "expected different names separated by commas"),
        ("verify", ["--topic", "a,b", "--out", "/lake/{topic}"], 2, "verify needs one table"),
        ("maintain", ["--topic-pattern", "a", "--out", "/lake/{topic}"], 2, "maintain needs one table"),
    ],
)
def test_what_names_no_tables_is_one_line(lake: Lake, verb: str, options: list[str], code: int, said: str) -> None:
    done = lake.done(verb, *options)
    assert (done.exit_code, done.stderr.count("\n")) == (code, 1)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (['every = "5m"', "tables = []"], "tables: expected [[tables]], found []"),
        (["[[tables]]", 'topic = "a"', 'every = "5m"'], "every is an option of all tables: put it above [[tables]]"),
        (["[[tables]]", 'topic = "a"', "[[tables]]", 'topik = "b"'], "topik is not an option of kafkad export"),
    ],
)
def test_what_a_file_can_not_say_of_tables_is_one_line(lake: Lake, lines: list[str], said: str) -> None:
    done = lake.done("run", *lake.conf_file(*lines))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert said in done.stderr
