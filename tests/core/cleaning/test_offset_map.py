import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkad.core.cleaning.offset_map import NOT_FOUND, KeyHashes, OffsetMap, hash_keys, prime_from, prime_up_to


def put(table: OffsetMap, keys: list[bytes], first_offset: int) -> list[int]:
    superseded: list[int] = table.put(hashes(keys), np.arange(first_offset, first_offset + len(keys))).tolist()
    return superseded


def hashes(keys: list[bytes]) -> KeyHashes:
    ends = np.cumsum([len(key) for key in keys], dtype=np.int64)
    sizes = np.array([len(key) for key in keys], np.int64)
    return hash_keys(b"".join(keys), ends - sizes, sizes, seed=5)


@settings(deadline=None)
@given(st.lists(st.lists(st.binary(max_size=2), max_size=50), max_size=6))
def test_the_latest_offset_of_each_key_is_found(chunks: list[list[bytes]]) -> None:
    table = OffsetMap(prime_up_to(420))
    latest: dict[bytes, int] = {}
    superseded: set[int] = set()
    offset = 0
    for keys in chunks:
        superseded.update(put(table, keys, offset))
        latest |= {key: offset + number for number, key in enumerate(keys)}
        offset += len(keys)
    asked = [*latest, b"not there"]
    assert table.get(hashes(asked)).tolist() == [*latest.values(), NOT_FOUND]
    assert table.entries == len(latest)
    assert superseded == set(range(offset)) - set(latest.values())


def test_a_table_that_is_nearly_full_finds_every_key() -> None:
    table = OffsetMap(prime_up_to(10_000))
    keys = [str(number).encode() for number in range(9_600)]
    for first in range(0, len(keys), 500):
        put(table, keys[first : first + 500], first)
    assert table.get(hashes(keys)).tolist() == list(range(9_600))
    assert table.get(hashes([str(number).encode() for number in range(20_000, 21_000)])).max() == NOT_FOUND


def test_an_entry_takes_24_bytes() -> None:
    table = OffsetMap(prime_up_to(1000))
    assert table._entries.nbytes == 24 * table.slots


def test_a_table_has_a_prime_number_of_slots_so_that_every_step_visits_all_of_them() -> None:
    assert [prime_up_to(number) for number in (0, 3, 4, 126, 127)] == [3, 3, 3, 113, 127]
    assert [prime_from(number) for number in (0, 3, 4, 114, 127)] == [3, 3, 5, 127, 127]


def test_new_keys_are_counted_once_each() -> None:
    table = OffsetMap(prime_from(20))
    put(table, [b"a", b"b"], 0)
    assert table.count_new(hashes([b"a", b"c", b"d", b"c", b"b"])) == 2
    assert table.count_new(hashes([b"a"])) == table.count_new(hashes([])) == 0
