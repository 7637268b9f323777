"""What clients hear of requests that no controller took in time, in every version."""

from datetime import timedelta
from typing import Any

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH
from kafkad.handlers.controller.requests.rejections import APIS
from kafkad.handlers.controller.requests.timeouts import LONGEST_MS, timed_out, timeout_of_ms
from tests.handlers.kio_calls import KioApi, versions_of

SECONDS = timedelta(seconds=7)


def _request(api: KioApi, name: str) -> Any:
    """About one thing, of what the version has."""
    match name:
        case "create_topics":
            nothing = {"assignments": (), "configs": ()}
            topic = api.part("CreatableTopic", name="t", num_partitions=1, replication_factor=1, **nothing)
            return api.request(topics=(topic,), timeout=SECONDS)
        case "delete_topics" if api.version >= 6:
            return api.request(topics=(api.part("DeleteTopicState", name="t", topic_id=None),), timeout=SECONDS)
        case "delete_topics":
            return api.request(topic_names=("t",), timeout=SECONDS)
        case "create_partitions":
            topic = api.part("CreatePartitionsTopic", name="t", count=2, assignments=None)
            return api.request(topics=(topic,), timeout=SECONDS, validate_only=False)
        case "alter_replica_log_dirs":
            named = api.part("AlterReplicaLogDirTopic", name="t", partitions=(0,))
            return api.request(dirs=(api.part("AlterReplicaLogDir", path="/one", topics=(named,)),))
        case "describe_configs":
            resource = api.part("DescribeConfigsResource", resource_type=2, resource_name="t", configuration_keys=None)
            return api.request(resources=(resource,))
        case "alter_configs" | "incremental_alter_configs":
            resource = api.part("AlterConfigsResource", resource_type=2, resource_name="t", configs=())
            return api.request(resources=(resource,), validate_only=False)
        case "init_producer_id":
            return api.request(transactional_id=None, transaction_timeout=SECONDS)
        case "alter_partition_reassignments":
            return api.request(timeout=SECONDS, topics=(), allow_replication_factor_change=True)
        case "list_partition_reassignments":
            return api.request(timeout=SECONDS, topics=None)
        case "elect_leaders":
            named = api.part("TopicPartitions", topic="t", partitions=(0,))
            return api.request(election_type=0, topic_partitions=(named,), timeout=SECONDS)
        case "update_features":
            return api.request(timeout=SECONDS, feature_updates=())
    return api.request()


@pytest.mark.parametrize(
    ("key", "version"), [(key, version) for key in DISPATCH for version in versions_of(key)], ids=str
)
def test_everything_that_was_asked_for_has_timed_out(key: int, version: int) -> None:
    name, _ = APIS[key]
    api = KioApi(name, version)
    body = _request(api, name)
    response = api.read(timed_out(key, version, body))
    fields = ("topics", "responses", "results", "replica_election_results")
    rows = [row for field in fields for row in getattr(response, field, ())]
    rows = [each for row in rows for each in getattr(row, "partitions", getattr(row, "partition_result", (row,)))]
    codes = [int(row.error_code) for row in rows] or [int(response.error_code)]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT]
    names_its_time = name in (
        *("create_topics", "delete_topics", "create_partitions", "update_features", "elect_leaders"),
        *("alter_partition_reassignments", "list_partition_reassignments"),
    )
    assert timeout_of_ms(key, version, body) == (7_000 if names_its_time else LONGEST_MS)
