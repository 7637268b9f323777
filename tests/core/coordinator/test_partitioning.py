"""Java's String.hashCode, compared with values from Java, and Kafka's partition for it."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkad.core.coordinator.partitioning import java_hash, partition_for


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Aa", 2112),
        ("BB", 2112),
        ("é", 233),
        # Two UTF-16 units: 0xD83D * 31 + 0xDE00.
        ("😀", 1_772_899),
        # A lone surrogate is a unit like any other.
        ("\ud83d", 0xD83D),
        ("polygenelubricants", -2147483648),
        ("group-1", 293427299),
    ],
)
def test_strings_hash_as_in_java(text: str, value: int) -> None:
    assert java_hash(text) == value


@given(st.text(st.characters(), max_size=300), st.integers(1, 40))
def test_long_strings_hash_as_unit_by_unit(text: str, times: int) -> None:
    value = 0
    for unit in memoryview((text * times).encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (31 * value + unit) % 2**32
    assert java_hash(text * times) % 2**32 == value


def test_thousands_of_long_keys_are_not_kept() -> None:
    tracemalloc.start()
    for number in range(300):
        partition_for(f"{number}{'x' * 32_000}", 50)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1 << 20


def test_the_absolute_value_counts_and_the_smallest_number_is_0() -> None:
    negative = next(key for number in range(100) if java_hash(key := f"consumers-{number}") < 0)
    assert partition_for(negative, 50) == -java_hash(negative) % 50
    assert partition_for("polygenelubricants", 50) == 0


@pytest.mark.parametrize("partitions", [1, 2, 50, 1000])
def test_every_key_has_a_partition(partitions: int) -> None:
    found = {partition_for(f"group-{number}", partitions) for number in range(5_000)}
    assert found <= set(range(partitions))
    assert len(found) >= min(partitions, 900)
