"""Commits of offsets: at maximum rate, and the cost of 10,000 a second."""

from bench.brokers.broker import RunningBroker
from bench.coordinators import wait_for_group
from bench.figures import Figure, cost, cpu_per_request, rate
from bench.group_replies import check_commit
from bench.group_requests import offset_commit
from bench.host import cpu_of_tree
from bench.load import Lane, Outcome, run
from bench.pacing import run_paced
from bench.raw_rows import topic
from bench.scale import Scale

_IN_FLIGHT = 5
_DIFFERENT = 64
_PACED_GROUPS = 10
_PER_SECOND = 10_000


def commits(broker: RunningBroker, scale: Scale, row: str, *, connections: int) -> list[Figure]:
    """OffsetCommit of one partition, five in flight on each connection, with one group for each connection."""
    with topic(broker, "committed", 1) as name:
        groups = [f"{name}-{index}" for index in range(connections)]
        for group in groups:
            wait_for_group(broker.port, group, name)
        _commit(broker, groups, name, int(scale.commits * scale.warm_up / 2))
        before = cpu_of_tree(broker.pid)
        outcome = _commit(broker, groups, name, scale.commits)
        used = cpu_of_tree(broker.pid) - before
    return [
        rate(row, "commits", outcome.requests / outcome.seconds, "1/s"),
        *cpu_per_request(row, used, outcome.requests),
        *_latencies(row, outcome),
    ]


def _commit(broker: RunningBroker, groups: list[str], name: str, total: int) -> Outcome:
    lanes = [
        Lane(
            broker.port,
            [offset_commit(group, name, 0, offset) for offset in range(_DIFFERENT)],
            total=total // len(groups),
            in_flight=_IN_FLIGHT,
            check=check_commit,
        )
        for group in groups
    ]
    return run(lanes)


def paced(broker: RunningBroker, scale: Scale, row: str) -> list[Figure]:
    """10,000 commits a second by ten groups, one connection each, in bursts of five."""
    with topic(broker, "committed", 1) as name:
        groups = [f"{name}-{index}" for index in range(_PACED_GROUPS)]
        for group in groups:
            wait_for_group(broker.port, group, name)
        requests = [offset_commit(group, name, 0, 1) for group in groups]
        run_paced(broker.port, requests, per_second=_PER_SECOND, seconds=scale.paced_seconds / 2, check=check_commit)
        before = cpu_of_tree(broker.pid)
        outcome = run_paced(
            broker.port, requests, per_second=_PER_SECOND, seconds=scale.paced_seconds, check=check_commit
        )
        used = cpu_of_tree(broker.pid) - before
    return [
        rate(row, "commits", outcome.requests / outcome.seconds, "1/s"),
        cost(row, "broker CPU", 100 * used.total / outcome.seconds, "% of a core"),
        *cpu_per_request(row, used, outcome.requests)[1:],
        *_latencies(row, outcome),
    ]


def _latencies(row: str, outcome: Outcome) -> list[Figure]:
    return [
        cost(row, "request p50", outcome.latency_ms(0.5), "ms"),
        cost(row, "request p99", outcome.latency_ms(0.99), "ms"),
    ]
