"""Values of a topic in columns: what can't be parsed is among the dead letters, and nothing is in both or none.

The broker is a real one, as `verify` compares the table with what it has; all tests share it.
"""

import io
import json
from pathlib import Path
from random import Random

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from bench.brokers.processes import WITHIN_S
from kafkad.core.log.records.batch import HEADER_SIZE, Codec, read_header
from kafkad.core.log.records.compression import MAX_DECOMPRESSED_BYTES
from kafkad.core.log.records.record import seal_batch
from tests.daemon.lake import FORMATS, PARTITIONS, Lake, kafkad, one_line
from tests.lakehouse.export.values.registry_server import serving
from tests.tools.raw_requests import RawClient, batch, produce, read_produced

SCHEMA = {"properties": {"n": {"type": "integer"}}}
WIDER = {"properties": {"n": {"type": "integer"}, "note": {"type": "string"}}}


def with_schema(tmp_path: Path, schema: object) -> tuple[str, ...]:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    return "--value", "json", "--schema-file", str(file)


@FORMATS
def test_json_becomes_columns_and_a_wider_schema_widens_the_table(lake: Lake, table: str, tmp_path: Path) -> None:
    options = ("--format", table)
    lake.send(*(b'{"n": %d, "note": "x"}' % number for number in range(100)), b"rubbish", b'{"n": "7"}', None)
    row = json.loads(lake.run("run", *options, *with_schema(tmp_path, SCHEMA), "--json"))
    assert (row["records"], row["unparsed"]) == (103, 2)
    letters = lake.dead_letters(*options)
    assert set(letters.column("value").to_pylist()) == {b"rubbish", b'{"n": "7"}'}
    assert "it is not a JSON object" in " ".join(letters.column("reason").to_pylist())
    lake.send(b'{"n": 100, "note": "x"}')
    wider = with_schema(tmp_path, WIDER)
    assert "--on-schema-change widen" in one_line(
        lake.run("run", *options, *wider, "--on-schema-change", "fail", code=1)
    )
    lake.run("run", *options, *wider)
    other = with_schema(tmp_path, {"properties": {"n": {"type": "string"}}})
    lake.send(b'{"n": 101, "note": "x"}')
    assert "value_parsed.n is int64 in the table" in one_line(lake.run("run", *options, *other, code=1))
    lake.run("run", *options)
    lake.run("verify", *options)
    if table == "delta":
        rows = DeltaTable(str(lake.out)).to_pyarrow_table().column("value_parsed").to_pylist()
        found = sorted((row["n"], row["note"]) for row in rows if row is not None)
        assert found == [*((number, None) for number in range(100)), (100, "x")]
        assert len(rows) == 103


@FORMATS
def test_keys_become_a_column_also_of_a_table_that_is_there(lake: Lake, table: str) -> None:
    options = ("--format", table)
    lake.produce(20)
    lake.run("run", *options)
    producer = Producer({"bootstrap.servers": lake.bootstrap})
    keys = [b"a", None, b"\xff", "ä".encode()]
    for key in keys:
        producer.produce(lake.topic, key=key, value=b"v")
    assert producer.flush(WITHIN_S) == 0
    row = json.loads(lake.run("run", *options, "--key", "string", "--json"))
    assert (row["records"], row["unparsed"]) == (4, 1)
    letters = lake.dead_letters(*options)
    assert letters.column("key").to_pylist() == [b"\xff"]
    assert letters.column("reason")[0].as_py().startswith("key: UnicodeDecodeError")
    lake.send(b"behind")
    lake.run("run", *options)
    lake.run("verify", *options)
    if table == "delta":
        rows = DeltaTable(str(lake.out)).to_pyarrow_table()
    elif table == "iceberg":
        catalog = load_catalog("kafkad", type="sql", uri=f"sqlite:///{lake.out}/_catalog.db")
        rows = catalog.load_table(f"kafkad.{lake.topic}").scan().to_arrow()
    else:
        paths = lake.run("files").splitlines()
        rows = pa.concat_tables([pq.ParquetFile(path).read() for path in paths], promote_options="default")
    assert rows.num_rows == 24
    assert sorted(filter(None, rows.column("key_parsed").to_pylist())) == ["a", "ä"]


def test_a_bad_value_may_stop_the_run_or_be_null(lake: Lake, tmp_path: Path) -> None:
    schema = with_schema(tmp_path, SCHEMA)
    lake.send(b'{"n": 1}', b"rubbish")
    said = one_line(lake.run("run", *schema, "--on-bad-record", "fail", code=1))
    assert "can't be parsed as json" in said and "at offset" in said
    assert not list(lake.out.rglob("*.json"))
    row = json.loads(lake.run("run", *schema, "--on-bad-record", "null", "--json"))
    assert (row["records"], row["unparsed"]) == (2, 1)
    assert sorted(lake.records().column("value").to_pylist()) == [b"rubbish", b'{"n": 1}']
    assert not Path(f"{lake.out}__dlq").exists()


def test_avro_with_a_registry_follows_its_schemas(lake: Lake) -> None:
    fields: list[object] = [{"name": "id", "type": "long"}]
    order: dict[str, object] = {"type": "record", "name": "Order", "fields": fields}
    note = {"name": "note", "type": ["null", "string"], "default": None}
    wider = {**order, "fields": [*fields, note]}

    def written(schema_id: int, schema: dict[str, object], value: object) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
        return b"\0" + schema_id.to_bytes(4, "big") + stream.getvalue()

    with serving() as registry:
        options = ("--value", "avro", "--schema-registry", registry.url)
        number = registry.register(f"{lake.topic}-value", json.dumps(order))
        lake.send(written(number, order, {"id": 1}), b"rubbish")
        lake.run("run", *options)
        new = registry.register(f"{lake.topic}-value", json.dumps(wider))
        lake.send(written(new, wider, {"id": 2, "note": "x"}), written(number, order, {"id": 3}))
        assert json.loads(lake.run("run", *options, "--json"))["records"] == 2
    paths = lake.run("files").splitlines()
    rows = [row for path in paths for row in pq.ParquetFile(path).read().column("value_parsed").to_pylist()]
    assert {row["id"]: row.get("note") for row in rows} == {1: None, 2: "x", 3: None}
    assert lake.dead_letters().column("value").to_pylist() == [b"rubbish"]
    lake.send(b"more")
    assert "does not respond" in one_line(lake.run("run", *options, code=1))


@FORMATS
def test_a_table_of_the_latest_of_each_key(lake: Lake, table: str, tmp_path: Path) -> None:
    options = ("--format", table, "--keep", "latest")
    known: dict[bytes, bytes] = {}
    random = Random(lake.topic)
    for _ in range(3):
        producer = Producer({"bootstrap.servers": lake.bootstrap, "linger.ms": 5})
        for number in range(500):
            key, value = b"key %d" % random.randrange(100), b'{"n": %d}' % number if random.random() < 0.7 else None
            producer.produce(lake.topic, key=key, value=value)
            known.pop(key, None)
            if value is not None:
                known[key] = value
        assert producer.flush(WITHIN_S) == 0
        lake.run("run", *options, *with_schema(tmp_path, SCHEMA), "--on-bad-record", "null")
        rows = lake.records("--format", table).to_pylist()
        assert len(rows) == len(known) and {row["key"]: row["value"] for row in rows} == known
        assert all(row["value_parsed"] == json.loads(row["value"]) for row in rows)
        lake.run("verify", "--format", table, "--deep")
    assert lake.run("run", *options) == f"nothing new in {lake.topic}\n"
    assert "--keep latest" in one_line(lake.run("run", "--format", table, code=1))
    lake.run("maintain", "--format", table, "--older-than", "0")
    assert lake.records("--format", table).num_rows == len(known)
    lake.send(b"without key")
    assert "has no key" in one_line(lake.run("run", *options, code=1))


@pytest.mark.parametrize(
    ("table", "jobs", "source"),
    [("parquet", "2", "broker"), ("parquet", "1", "files"), ("delta", "1", "files"), ("iceberg", "1", "broker")],
)
def test_a_damaged_batch_is_among_the_dead_letters_with_its_bytes_if_so_wanted(
    lake: Lake, table: str, jobs: str, source: str
) -> None:
    for number in range(9):
        lake.send(*[b"%d" % number] * PARTITIONS * 10)
    log = max(lake.log_dir.glob(f"{lake.topic}-*/*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(log.read_bytes())
    content[65] ^= 1
    log.write_bytes(content)
    options = ("--source", source, "--format", table)
    run = lake.run if jobs == "1" else lake.apart
    assert "batch" in (said := one_line(run("run", *options, "--jobs", jobs, code=1))) and "is damaged" in said
    row = json.loads(run("run", *options, "--jobs", jobs, "--on-damage", "dlq", "--json"))
    assert row["unparsed"] == 1
    (letter,) = lake.dead_letters("--format", table).to_pylist()
    assert letter["value"] == bytes(content[: len(letter["value"])]) and letter["offset"] == 0
    place = str(log) if source == "files" else "as the broker sent it"
    assert f"{place}: the checksum is wrong" in letter["reason"] and letter["timestamp"] is None
    lost = int(letter["reason"].rpartition(" ")[2]) + 1
    assert lake.records("--format", table).num_rows == 9 * PARTITIONS * 10 - lost
    lake.run("verify", *options)
    lake.send(b"more")
    lake.run("run", *options)
    lake.run("verify", *options, "--deep")


@FORMATS
def test_a_batch_that_a_producer_made_unreadable_stops_neither_exports_nor_consumers(lake: Lake, table: str) -> None:
    """The broker takes it unread (decision 003): its checksum is right."""
    bomb = batch(codec=Codec.ZSTD)
    bomb = seal_batch(read_header(bomb), zstandard.compress(bytes(MAX_DECOMPRESSED_BYTES + 1)))
    with RawClient(int(lake.bootstrap.rpartition(":")[2])) as client:
        for each in (batch(), bomb, batch()):
            (produced,) = read_produced(client.ask(produce({(lake.topic, 0): each}))).values()
            assert produced.error == 0
    options = ("--format", table)
    why = f"the decompressed records exceed the limit of {MAX_DECOMPRESSED_BYTES} bytes"
    assert f"{lake.topic}-0: at offset 1, the records of a batch can't be read: {why}" in lake.run(
        "run", *options, code=1
    )
    lake.run("run", *options, "--on-damage", "dlq")
    assert lake.records(*options).column("offset").to_pylist() == [0, 2]
    (letter,) = lake.dead_letters(*options).to_pylist()
    assert letter["value"][HEADER_SIZE:] == bomb[HEADER_SIZE:] and why in letter["reason"]
    lake.run("verify", *options, "--deep")
    reading = ("consume", lake.topic, "--bootstrap-server", lake.bootstrap, "--exit-at-end", "--format", "%o\n")
    stopped = kafkad(*reading, "--from-beginning")
    assert (stopped.exit_code, stopped.stdout) == (1, "0\n")
    assert f"the batch with the offsets 1 to 1 can't be read: {why}. --partition 0 --offset 2" in stopped.stderr
    assert kafkad(*reading, "--partition", "0", "--offset", "2").stdout == "2\n"


@pytest.mark.parametrize(("byte", "bits"), [(8, 0x10), (11, 0x10), (16, 1), (26, 1)])
def test_where_nobody_can_tell_how_it_goes_on_through_a_broker_its_files_are_named(
    lake: Lake, byte: int, bits: int
) -> None:
    """Length (too long and a little wrong), magic, last offset."""
    for number in range(9):
        lake.send(*[b"%d" % number] * PARTITIONS * 10)
    log = max(lake.log_dir.glob(f"{lake.topic}-*/*.log"), key=lambda path: path.stat().st_size)
    content = bytearray(log.read_bytes())
    content[byte] ^= bits
    log.write_bytes(content)
    said = one_line(lake.run("run", "--on-damage", "dlq", code=1))
    assert f"{log.parent.name}: the record batch at offset 0 is damaged" in said and "--source files" in said
