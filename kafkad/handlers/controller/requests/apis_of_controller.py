"""The handlers of the controller process by API key. The API table has the versions."""

from collections.abc import Callable

from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    elect_leaders,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_partition_reassignments,
    update_features,
)
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response
from kafkad.wire import api_table

Handler = Callable[[memoryview, RequestContext, ControllerView], Response]

DISPATCH: dict[int, Handler] = {
    api_table.CREATE_TOPICS: create_topics.handle,
    api_table.DELETE_TOPICS: delete_topics.handle,
    api_table.INIT_PRODUCER_ID: init_producer_id.handle,
    api_table.DESCRIBE_CONFIGS: describe_configs.handle,
    api_table.ALTER_CONFIGS: alter_configs.handle,
    api_table.CREATE_PARTITIONS: create_partitions.handle,
    api_table.ELECT_LEADERS: elect_leaders.handle,
    api_table.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    api_table.ALTER_PARTITION_REASSIGNMENTS: alter_partition_reassignments.handle,
    api_table.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments.handle,
    api_table.LIST_CONFIG_RESOURCES: list_config_resources.handle,
    api_table.UPDATE_FEATURES: update_features.handle,
}
