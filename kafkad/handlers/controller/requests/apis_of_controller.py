"""The handlers of the controller process by API key. The API table has the versions."""

from collections.abc import Callable

from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller import configs, init_producer_id, replicas, topics, update_features
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response
from kafkad.wire import api_table

Handler = Callable[[memoryview, RequestContext, ControllerView], Response]

DISPATCH: dict[int, Handler] = {
    api_table.CREATE_TOPICS: topics.handle_create_topics,
    api_table.DELETE_TOPICS: topics.handle_delete_topics,
    api_table.INIT_PRODUCER_ID: init_producer_id.handle,
    api_table.DESCRIBE_CONFIGS: configs.handle_describe_configs,
    api_table.ALTER_CONFIGS: configs.handle_alter_configs,
    api_table.ALTER_REPLICA_LOG_DIRS: replicas.handle_alter_replica_log_dirs,
    api_table.CREATE_PARTITIONS: topics.handle_create_partitions,
    api_table.ELECT_LEADERS: replicas.handle_elect_leaders,
    api_table.INCREMENTAL_ALTER_CONFIGS: configs.handle_incremental_alter_configs,
    api_table.ALTER_PARTITION_REASSIGNMENTS: replicas.handle_alter_partition_reassignments,
    api_table.LIST_PARTITION_REASSIGNMENTS: replicas.handle_list_partition_reassignments,
    api_table.LIST_CONFIG_RESOURCES: configs.handle_list_config_resources,
    api_table.UPDATE_FEATURES: update_features.handle,
}
