"""DescribeLogDirs, versions 1 to 5: how large is each partition, in which directory, and how much room is left?

Sizes are those that the owners have published, so nothing is walked through. Replicas are not moved between
directories, so that there is no future log and no lag.
"""

from collections.abc import Iterator
from typing import Any

from kafkad.core.errors import ErrorCode, KafkaError
from kafkad.handlers.leadership import find_slot
from kafkad.handlers.view import BrokerView
from kafkad.wire.kio_codec import Codec, codec

ByTopic = dict[str, list[Any]]


def handle(body: memoryview, version: int, view: BrokerView) -> bytes:
    """The response body. Raises MalformedRequest."""
    messages = codec("describe_log_dirs", version)
    request = messages.decode(body)
    directories: list[ByTopic] = [{} for _ in view.log_dirs]
    for topic, index in _wanted(request.topics, view):
        try:
            _, published = find_slot(view, topic, index)
        except KafkaError:
            continue
        row = messages.part(
            "DescribeLogDirsPartition",
            partition_index=index,
            partition_size=published.size_bytes,
            offset_lag=0,
            is_future_key=False,
        )
        directories[published.log_dir].setdefault(topic, []).append(row)
    offline = view.offline_dirs()
    results = []
    for at, path in enumerate(view.log_dirs):
        space = None if at in offline else view.volume_space(path)
        results.append(_result(messages, path, directories[at], space))
    return messages.encode(error_code=ErrorCode.NONE, results=tuple(results))


def _wanted(topics: Any, view: BrokerView) -> Iterator[tuple[str, int]]:
    """Every partition once: those named, or all of them."""
    if topics is None:
        for name, topic in view.image.topics.items():
            yield from ((name, row.index) for row in topic.partitions)
    else:
        yield from dict.fromkeys((topic.topic, index) for topic in topics for index in topic.partitions)


def _result(messages: Codec, path: str, found: ByTopic, space: tuple[int, int] | None) -> Any:
    if space is None:
        found, space = {}, UNKNOWN_SPACE
        error = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        error = ErrorCode.NONE
    topics = (messages.part("DescribeLogDirsTopic", name=name, partitions=tuple(rows)) for name, rows in found.items())
    return messages.part(
        "DescribeLogDirsResult",
        error_code=error,
        log_dir=path,
        topics=tuple(topics),
        total_bytes=space[0],
        usable_bytes=space[1],
        is_cordoned=False,
    )


UNKNOWN_SPACE = (-1, -1)
