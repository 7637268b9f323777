"""Joins of groups: the time until every member has its assignment, and the cost for the broker."""

import time

from bench.brokers.broker import RunningBroker
from bench.classic_group import ClassicGroup
from bench.consumer_group import ConsumerGroup
from bench.coordinators import wait_for_group
from bench.figures import Figure, cost, rate
from bench.group_replies import read_heartbeat
from bench.host import Cpu, cpu_of_tree
from bench.lifecycle_rows import median
from bench.load import Lane, run
from bench.raw_rows import topic
from bench.scale import Scale

_MIN_TURNS = 3
_HEARTBEATS_IN_FLIGHT = 5


def classic(broker: RunningBroker, scale: Scale, row: str, *, members: int) -> list[Figure]:
    """The first join of a group, with `group.initial.rebalance.delay.ms`, and then repeated joins of all members."""
    with topic(broker, "joined", 1) as name:
        wait_for_group(broker.port, f"classic-{members}", name)
        group = ClassicGroup(broker.port, f"classic-{members}", name, members)
        before = cpu_of_tree(broker.pid)
        first = group.join(0)
        formed = cpu_of_tree(broker.pid) - before
        turns = max(_MIN_TURNS, scale.joins // members)
        warm = max(1, turns // 2)
        for turn in range(warm):
            group.join(1 + turn)
        before = cpu_of_tree(broker.pid)
        seconds = [group.join(1 + warm + turn) for turn in range(turns)]
        used = cpu_of_tree(broker.pid) - before
        group.close()
    return [
        cost(row, "first join, with its delay", first, "s"),
        cost(row, "broker CPU of the first join", formed.total * 1e3, "ms"),
        *_rebalances(row, seconds, used, members),
    ]


def _rebalances(row: str, seconds: list[float], used: Cpu, members: int) -> list[Figure]:
    return [
        cost(row, "rebalance, median", median(seconds) * 1e3, "ms"),
        cost(row, "rebalance, slowest", max(seconds) * 1e3, "ms"),
        cost(row, "broker CPU", used.total / len(seconds) / members * 1e6, "µs/member"),
    ]


def consumer(broker: RunningBroker, scale: Scale, row: str, *, members: int) -> list[Figure]:
    """Joins of groups one after the other, and then heartbeats of the last group without changes."""
    turns = max(_MIN_TURNS, scale.joins // members // 10)
    with topic(broker, "shared", members) as name:
        wait_for_group(broker.port, "consumer", name)
        _form(broker, "consumer-warm", name, members).close()
        groups, seconds = [], []
        before = cpu_of_tree(broker.pid)
        for turn in range(turns):
            started = time.perf_counter()
            groups.append(_form(broker, f"consumer-{turn}", name, members))
            seconds.append(time.perf_counter() - started)
        used = cpu_of_tree(broker.pid) - before
        heartbeats = sum(group.heartbeats for group in groups)
        figures = [
            *_rebalances(row, seconds, used, members),
            cost(row, "heartbeats until settled", heartbeats / turns / members, "1/member"),
            *_settled(broker, scale, row, groups[-1]),
        ]
        for group in groups:
            group.close()
    return figures


def _form(broker: RunningBroker, group_id: str, name: str, members: int) -> ConsumerGroup:
    group = ConsumerGroup(broker.port, group_id, name, members)
    group.join()
    return group


def _settled(broker: RunningBroker, scale: Scale, row: str, group: ConsumerGroup) -> list[Figure]:
    before = cpu_of_tree(broker.pid)
    lane = Lane(
        broker.port,
        group.unchanged_heartbeats(),
        total=scale.heartbeats,
        in_flight=_HEARTBEATS_IN_FLIGHT,
        check=read_heartbeat,
    )
    outcome = run([lane])
    used = cpu_of_tree(broker.pid) - before
    return [
        rate(row, "heartbeats that say nothing", outcome.requests / outcome.seconds, "1/s"),
        cost(row, "broker CPU of such a heartbeat", used.total / outcome.requests * 1e6, "µs/request"),
    ]
