"""What the metrics page says of groups: how far each is behind, and how long rebalances took.

Real, as one process shows what others know.
"""

from datetime import timedelta
from pathlib import Path

from bench.brokers.processes import eventually
from tests.daemon.group_client import GroupClient
from tests.daemon.served import Served
from tests.tools.raw_requests import batch, produce


def test_lag_and_rebalances_are_shown(tmp_path: Path) -> None:
    """Of partitions and of groups of two workers."""
    overrides = {"group.initial.rebalance.delay.ms": "0", "num.io.threads": "2"}
    with Served(tmp_path, overrides) as served, GroupClient(served.broker.port) as client:
        client.find("g")
        with served.connect() as raw:
            raw.ask(produce({("t", 0): batch(10), ("t", 1): batch(5)}))
        joined = client.join("g")
        client.sync("g", joined.generation_id, joined.member_id, {joined.member_id: b"mine"})
        assert int(client.commit("g", {("t", 0): 4, ("t", 1): 3}, joined.generation_id, joined.member_id)) == 0
        assert int(client.commit("done", {("t", 0): 10, ("t", 1): 9})) == 0

        eventually(lambda: served.metric_lines("kafkad_group_lag"), what="the reporter has asked the workers")
        shown = served.metric_lines("kafkad_group_lag")
        assert sorted(shown) == [
            'kafkad_group_lag_max{group="done"} 0.0',
            'kafkad_group_lag_max{group="g"} 6.0',
            'kafkad_group_lag_sum{group="done"} 0.0',
            'kafkad_group_lag_sum{group="g"} 8.0',
        ]
        assert served.metric("kafka_coordinator_group_rebalancetimems_count") == 1

        assert served.metric("kafka_coordinator_group_consumerrebalances_total") == 0
        heard = client.ask(
            "consumer_group_heartbeat",
            1,
            group_id="modern",
            member_id="m",
            member_epoch=0,
            rebalance_timeout=timedelta(seconds=60),
            subscribed_topic_names=("t",),
            topic_partitions=(),
        )
        assert int(heard.error_code) == 0
        assert served.metric("kafka_coordinator_group_consumerrebalances_total") == 1
