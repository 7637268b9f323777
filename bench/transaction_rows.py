"""Transactions of one producer one after the other: add a partition, produce, commit."""

import time

from bench.brokers.broker import RunningBroker
from bench.connection import Connection
from bench.coordinators import make_producer
from bench.figures import Figure, cost, rate
from bench.group_replies import added_partition, check_end
from bench.host import cpu_of_tree
from bench.raw_rows import topic
from bench.replies import check_produce
from bench.scale import Scale
from bench.transaction_requests import Producer, add_partition, end, produce, transactional_batch

_RECORD_SIZE = 100
_PAUSE_S = 0.001
_TIMEOUT_S = 60.0


def transactions(broker: RunningBroker, scale: Scale, row: str, *, records: int) -> list[Figure]:
    """The time of a transaction includes the wait for the markers of the previous one."""
    with topic(broker, "transactional", 1) as name:
        producer = make_producer(broker.port, f"bench-{records}")
        count = scale.transactions
        produced = [
            produce(producer, name, {0: transactional_batch(producer, index * records, records, _RECORD_SIZE)})
            for index in range(2 * count)
        ]
        _commit_all(broker.port, producer, name, produced[:count])
        before, started = cpu_of_tree(broker.pid), time.perf_counter()
        milliseconds = _commit_all(broker.port, producer, name, produced[count:])
        seconds = time.perf_counter() - started
        used = cpu_of_tree(broker.pid) - before
    return [
        rate(row, "transactions", count / seconds, "1/s"),
        cost(row, "p50", milliseconds[count // 2], "ms"),
        cost(row, "p99", milliseconds[count * 99 // 100], "ms"),
        cost(row, "broker CPU", used.total / count * 1e3, "ms/transaction"),
    ]


def _commit_all(port: int, producer: Producer, name: str, produced: list[bytes]) -> list[float]:
    """Milliseconds of each transaction, sorted."""
    adding, ending, milliseconds = add_partition(producer, name, 0), end(producer), []
    with Connection(port) as connection:
        for request in produced:
            started = time.perf_counter()
            while not added_partition(connection.request(adding)):
                if time.perf_counter() > started + _TIMEOUT_S:
                    raise TimeoutError("the previous transaction has not ended")
                time.sleep(_PAUSE_S)
            check_produce(connection.request(request))
            check_end(connection.request(ending))
            milliseconds.append((time.perf_counter() - started) * 1_000)
    return sorted(milliseconds)
