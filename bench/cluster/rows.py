"""The rows of a cluster: replicated writes, and times of failovers."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial

from bench.brokers.broker import RunningBroker
from bench.brokers.clusters import NUMBERS, RunningCluster
from bench.cluster.control import (
    are_in_sync,
    controller,
    drop_topic,
    elect_preferred_leader,
    leaders,
    make_topic,
    replicas_led_by,
    wait_until,
)
from bench.cluster.outage import longest_outage
from bench.figures import Better, Figure, cost, cpu_per_gigabyte, rate
from bench.host import Cpu, cpu_of_tree, idle_cpu_percent, pss_megabytes, touch_memory
from bench.load import Lane, Outcome, run
from bench.replies import check_produce
from bench.requests import produce, record_batch
from bench.scale import Scale

_ACKS_ALL = -1
_IN_FLIGHT = 5
_SETTLE_S = 5.0
_WATCHED = "watched"
_ORDER = ("first", "second", "last")


def at_rest(cluster: RunningCluster, scale: Scale, row: str) -> list[Figure]:
    """The average of one broker."""
    time.sleep(_SETTLE_S)
    brokers = [broker.pid for broker in cluster.brokers.values()]
    idle = [idle_cpu_percent(pid, scale.idle_seconds / len(brokers)) for pid in brokers]
    return [
        cost(row, "memory (PSS) of one", sum(pss_megabytes(pid) for pid in brokers) / len(brokers), "MB"),
        cost(row, "idle CPU of one", sum(idle) / len(brokers), "% of a core"),
    ]


def replicated(
    cluster: RunningCluster, scale: Scale, row: str, *, partitions: int, batch_bytes: int, record_size: int
) -> list[Figure]:
    """acks=all to partitions of the first broker; CPU of all brokers."""
    records = batch_bytes // (record_size + 10)
    batch = record_batch(records, record_size)
    payload = len(batch) * partitions
    requests = scale.bulk_bytes // 2 // payload
    make_topic(cluster, "replicated", [replicas_led_by(NUMBERS[0])] * partitions)
    request = produce("replicated", dict.fromkeys(range(partitions), batch), acks=_ACKS_ALL)
    _produce(cluster, request, max(1, int(requests * scale.warm_up / 2)))
    touch_memory(scale.scratch_gigabytes)
    before = _cpu(cluster)
    outcome = _produce(cluster, request, requests)
    used = _cpu(cluster) - before
    memory = sum(pss_megabytes(broker.pid) for broker in cluster.brokers.values())
    drop_topic(cluster, "replicated")
    moved = payload * requests
    return [
        rate(row, "throughput", moved / outcome.seconds / 1e6, "MB/s"),
        *cpu_per_gigabyte(row, used, moved),
        cost(row, "request p50", outcome.latency_ms(0.5), "ms"),
        cost(row, "request p99", outcome.latency_ms(0.99), "ms"),
        cost(row, "memory (PSS) of all three after it", memory, "MB"),
    ]


def _produce(cluster: RunningCluster, request: bytes, total: int) -> Outcome:
    port = cluster.brokers[NUMBERS[0]].port
    return run([Lane(port, [request], total=total, in_flight=_IN_FLIGHT, check=check_produce)])


def _cpu(cluster: RunningCluster) -> Cpu:
    used = [cpu_of_tree(broker.pid) for broker in cluster.brokers.values()]
    return Cpu(user=sum(each.user for each in used), system=sum(each.system for each in used))


def outages(cluster: RunningCluster, scale: Scale, row: str) -> list[Figure]:
    """kill -9 of a whole broker that leads: first another broker than the controller, then the controller."""
    make_topic(cluster, _WATCHED, [replicas_led_by(number) for number in NUMBERS])
    first = next(number for number in NUMBERS if number != controller(cluster))
    without_leader = _without(cluster, first)
    without_controller = _without(cluster, controller(cluster))
    return [
        cost(row, "no write after a leader was killed", without_leader, "s"),
        cost(row, "no write after the controller was killed", without_controller, "s"),
    ]


def _without(cluster: RunningCluster, number: int) -> float:
    """The seconds without a write; restores the cluster before it returns."""
    broker = cluster.brokers[number]
    partition = next(index for index, leader in leaders(cluster, _WATCHED).items() if leader == number)
    seconds = longest_outage(cluster.bootstrap, _WATCHED, partition, broker.kill)
    broker.start()
    wait_until(partial(are_in_sync, cluster, _WATCHED), "all replicas are in sync")
    elect_preferred_leader(cluster, _WATCHED, partition, number)
    return seconds


def processes(cluster: RunningCluster, scale: Scale, row: str) -> list[Figure]:
    """kill -9 of each process of a leader in turn, where a broker has several."""
    make_topic(cluster, _WATCHED, [replicas_led_by(NUMBERS[0])])
    broker = cluster.brokers[NUMBERS[0]]
    seconds = [
        longest_outage(cluster.bootstrap, _WATCHED, 0, partial(_kill, broker, position))
        for position in range(1, len(broker.tree()))
    ]
    return [cost(row, "no write, at most", max(seconds), "s")] if seconds else []


def _kill(broker: RunningBroker, position: int) -> None:
    os.kill(broker.tree()[position].pid, signal.SIGKILL)


def large_topic(cluster: RunningCluster, scale: Scale, row: str) -> list[Figure]:
    """Create a topic, delete it and create it again; then stop the brokers one after the other."""
    assignments = [replicas_led_by(NUMBERS[number % len(NUMBERS)]) for number in range(scale.partitions // 10)]
    made = make_topic(cluster, "large", assignments)
    deleted = drop_topic(cluster, "large")
    make_topic(cluster, "large", assignments)
    stopped = [_stop(broker, row, which) for broker, which in zip(cluster.brokers.values(), _ORDER, strict=True)]
    return [
        cost(row, "made", made, "s"),
        cost(row, "deleted", deleted, "s"),
        stopped[0],
        stopped[-1],
    ]


def _stop(broker: RunningBroker, row: str, which: str) -> Figure:
    """The time of a controlled shutdown. The last voters of a KRaft quorum do not stop: there is no controller left."""
    started = time.perf_counter()
    try:
        broker.stop()
    except subprocess.TimeoutExpired as expired:
        seconds, why_not = None, f"failed: not stopped after {expired.timeout:.0f} s"
    else:
        seconds, why_not = time.perf_counter() - started, ""
    name = f"controlled shutdown of the {which}"
    return Figure(row=row, name=name, unit="s", better=Better.LOWER, value=seconds, why_not=why_not)


Row = Callable[[RunningCluster, Scale, str], list[Figure]]
TITLES = {
    "rest": "three brokers at rest",
    "produce-12": "acks=all, 12 partitions, 16 KB batches, 1 KB records",
    "produce-1": "acks=all, 1 partition, 1 MB requests, 1 KB records",
    "outages": "kill -9 of all of a broker, session timeouts as they are by default",
    "processes": "kill -9 of one process of a leader",
    "large": "one topic of 1,000 partitions",
}
ROWS: dict[str, Row] = {
    "rest": at_rest,
    "produce-12": partial(replicated, partitions=12, batch_bytes=16_384, record_size=1_024),
    "produce-1": partial(replicated, partitions=1, batch_bytes=1_040_000, record_size=1_024),
    "outages": outages,
    "processes": processes,
    "large": large_topic,
}
"""Each row runs on a new cluster."""
