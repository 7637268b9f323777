"""Partitions are spread over fetchers as Apache Kafka spreads them."""

from kafkad.core.coordinator.partitioning import java_hash
from kafkad.processes.fetcher.followed import fetcher_of


def test_the_hash_overflows_as_javas_does() -> None:
    number = 31 * java_hash("orders") + 3
    wrapped = (number + 2**31) % 2**32 - 2**31
    assert java_hash("orders") == -1008770331
    assert fetcher_of("orders", 3, 7) == abs(wrapped) % 7


def test_one_fetcher_has_all() -> None:
    assert {fetcher_of("t", partition, 1) for partition in range(50)} == {0}
