"""DescribeLogDirs, versions 1 to 5: the log directories with their free space and the sizes of their partitions.

The sizes come from the slots that the owners publish; no directory is read. A partition that is being moved has a
second row in the target directory, with the size of the future log and its offset lag. A request may be about all
partitions, so it is handled in steps.
"""

from collections.abc import Iterator
from typing import Any

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.core.request_context import RequestContext
from kafkad.handlers.partitions.leadership import find_slot
from kafkad.handlers.requests.broker_view import BrokerView
from kafkad.handlers.requests.steps import ROWS_A_STEP, Pause, Steps
from kafkad.wire.kio_codec import codec
from kafkad.wire.messages.describe_log_dirs import LogDir, pack_partition, pack_response

UNKNOWN_SPACE = (-1, -1)
NOT_MOVING = -1


def handle(body: memoryview, context: RequestContext, view: BrokerView) -> Steps:
    """The steps that make the response body. Raises MalformedRequest at once."""
    request = codec("describe_log_dirs", context.version).decode(body)
    return _steps(list(_requested(request.topics, view)), context.version, view)


def _steps(requested: list[tuple[str, int]], version: int, view: BrokerView) -> Steps:
    directories: list[dict[str, list[bytes]]] = [{} for _ in view.log_dirs]
    for number, (topic, index) in enumerate(requested):
        if number % ROWS_A_STEP == ROWS_A_STEP - 1:
            yield Pause.TURN
        try:
            _, published = find_slot(view, topic, index)
        except KafkaError:
            continue
        row = pack_partition(version, index, published.size_bytes)
        directories[published.log_dir].setdefault(topic, []).append(row)
        if published.future_dir not in (NOT_MOVING, published.log_dir):
            lag = max(0, published.leo_offset - published.future_end)
            row = pack_partition(version, index, published.future_bytes, lag, is_future=True)
            directories[published.future_dir].setdefault(topic, []).append(row)
    offline = view.offline_dirs()
    return pack_response(
        version,
        [
            _log_dir(
                path, directories[at], None if at in offline else view.volume_space(path), at in view.cordoned_dirs
            )
            for at, path in enumerate(view.log_dirs)
        ],
    )


def _requested(topics: Any, view: BrokerView) -> Iterator[tuple[str, int]]:
    """The requested partitions, each once; all partitions for null."""
    if topics is None:
        for name, topic in view.image.topics.items():
            yield from ((name, row.index) for row in topic.partitions)
    else:
        yield from dict.fromkeys((topic.topic, index) for topic in topics for index in topic.partitions)


def _log_dir(path: str, topics: dict[str, list[bytes]], space: tuple[int, int] | None, is_cordoned: bool) -> LogDir:
    if space is None:
        return LogDir(ErrorCode.KAFKA_STORAGE_ERROR, path, {}, UNKNOWN_SPACE, is_cordoned)
    return LogDir(ErrorCode.NONE, path, topics, space, is_cordoned)
