"""Records of `__transaction_state`: bytes as the schemas say, and no input that ends otherwise than they say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.transactions.records import TransactionRecord, TransactionRemoved
from kafkad.core.transactions.state import TransactionState
from kafkad.wire.records.record_schema import MalformedRecord
from kafkad.wire.records.transaction_records import decode, encode

I16 = st.integers(-(2**15), 2**15 - 1)
I32 = st.integers(-(2**31), 2**31 - 1)
I64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
KEY = b"\x00\x00\x00\x02tx"


def known(version: int, **other: object) -> TransactionRecord:
    values: dict[str, object] = {
        "transactional_id": "tx",
        "producer_id": 7,
        "producer_epoch": 3,
        "timeout_ms": 60_000,
        "state": TransactionState.ONGOING,
        "last_update_ms": 1_700_000_000_001,
        "start_ms": 1_700_000_000_000,
        "partitions": (("a", 1), ("a", 0), ("bc", 70_000)),
        "value_version": version,
    }
    return TransactionRecord(**(values | other))  # type: ignore[arg-type]


HEAD = "0000000000000007 0003 0000ea60 01"
TIMES = "0000018bcfe56801 0000018bcfe56800"


def test_version_0_is_written_as_its_schema_says() -> None:
    value = bytes.fromhex(
        f"0000 {HEAD} 00000002 0001 61 00000002 00000001 00000000 0002 6263 00000001 00011170 {TIMES}"
    )
    assert encode(known(0)) == (KEY, value)
    assert decode(KEY, value) == known(0)


def test_version_1_is_written_as_its_schema_says() -> None:
    record = known(1, previous_producer_id=6, next_producer_id=8, client_transaction_version=2)
    value = bytes.fromhex(
        f"0001 {HEAD} 03 02 61 03 00000001 00000000 00 03 6263 02 00011170 00 {TIMES}"
        "03 00 08 0000000000000006 01 08 0000000000000008 02 02 0002"
    )
    assert encode(record) == (KEY, value)
    assert decode(KEY, value) == record


def test_fields_with_nothing_to_say_are_left_out() -> None:
    _, value = encode(known(1))
    assert value is not None and value.endswith(bytes.fromhex(TIMES) + b"\x00")


@pytest.mark.parametrize(("version", "partitions"), [(0, "ffffffff"), (1, "00")])
def test_an_empty_transaction_has_no_partitions_instead_of_none(version: int, partitions: str) -> None:
    _, value = encode(known(version, state=TransactionState.EMPTY, partitions=()))
    assert value is not None
    assert value[17 : 17 + len(partitions) // 2].hex() == partitions
    assert decode(KEY, value) == known(version, state=TransactionState.EMPTY, partitions=())


@pytest.mark.parametrize(("version", "partitions"), [(0, "00000000"), (1, "01")])
def test_a_complete_transaction_has_none(version: int, partitions: str) -> None:
    _, value = encode(known(version, state=TransactionState.COMPLETE_COMMIT, partitions=()))
    assert value is not None
    assert value[17 : 17 + len(partitions) // 2].hex() == partitions


def test_fields_that_a_later_kafka_adds_are_passed_over() -> None:
    _, value = encode(known(1))
    assert value is not None
    # Tag 3 is the epoch of the next producer id (KIP-939).
    assert decode(KEY, value[:-1] + bytes.fromhex("01 03 02 0005")) == known(1)


def test_a_tombstone_is_the_removed_form() -> None:
    assert encode(TransactionRemoved(transactional_id="tx")) == (KEY, None)
    assert decode(KEY, None) == TransactionRemoved(transactional_id="tx")


def test_keys_of_other_versions_are_not_known() -> None:
    assert decode(b"\x00\x01" + KEY[2:], None) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\x00\x00\xff\xff", None),
        (KEY[:-1], None),
        (KEY, b""),
        (KEY, b"\x00\x02" + bytes(40)),
        (KEY, b"\x00\x00" + bytes(14) + b"\x09" + bytes(20)),
        (KEY, b"\x00\x00" + bytes(14) + b"\x01\x7f\xff\xff\xff"),
    ],
)
def test_what_is_no_record_is_malformed(key: bytes, value: bytes | None) -> None:
    with pytest.raises(MalformedRecord):
        decode(key, value)


@given(st.binary(max_size=80), st.integers(0, 1))
def test_any_bytes_are_a_record_or_malformed(body: bytes, version: int) -> None:
    try:
        decode(KEY, bytes((0, version)) + body)
    except MalformedRecord:
        return


@given(
    st.builds(
        TransactionRecord,
        transactional_id=NAMES,
        producer_id=I64,
        producer_epoch=I16,
        timeout_ms=I32,
        state=st.sampled_from([state for state in TransactionState if state is not TransactionState.EMPTY]),
        last_update_ms=I64,
        start_ms=I64,
        partitions=st.lists(st.tuples(NAMES, I32), unique=True, max_size=5).map(
            lambda rows: tuple(sorted(rows, key=lambda row: row[0]))
        ),
        previous_producer_id=I64,
        next_producer_id=I64,
        client_transaction_version=I16,
        value_version=st.just(1),
    )
)
def test_what_was_written_is_read(record: TransactionRecord) -> None:
    key, value = encode(record)
    assert decode(key, value) == record
