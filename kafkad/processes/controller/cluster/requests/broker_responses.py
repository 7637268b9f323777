"""The responses of brokers to the elected controller: offline, online and deleted replicas."""

import logging

from kafkad.core.cluster.control_requests import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
)
from kafkad.core.cluster.request_parts import ControlResponse
from kafkad.core.controller.elected.announcements import Request, deleted_topics, replicas_with
from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.errors import ErrorCode

log = logging.getLogger(__name__)


def handle_broker_response(
    controller: ElectedController, broker: int, request: Request, response: ControlResponse | None
) -> None:
    """`response` is None if it can't be read."""
    if isinstance(request, LeaderAndIsrRequest) and isinstance(response, LeaderAndIsrResponse):
        offline = replicas_with(ErrorCode.KAFKA_STORAGE_ERROR, request, response)
        if count := controller.replicas_offline(broker, request.broker_epoch, offline):
            log.warning("broker %d: the log directory of %d partition(s) has failed or is full", broker, count)
        online = replicas_with(ErrorCode.NONE, request, response)
        controller.replicas_online(broker, request.broker_epoch, online)
    elif isinstance(request, StopReplicaRequest):
        readable = response if isinstance(response, StopReplicaResponse) else None
        for name, is_deleted in deleted_topics(request, readable).items():
            if is_deleted:
                controller.replica_deleted(name, broker)
            else:
                controller.deletion_failed(name, broker)


def retry_deletions(controller: ElectedController) -> None:
    for broker, names in controller.retry_deletions().items():
        log.warning("broker %d could not delete its replicas of %d topic(s), retrying", broker, len(names))
