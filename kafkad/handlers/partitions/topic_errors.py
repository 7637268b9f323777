"""The error of an unknown topic: one for legal names, another for illegal names."""

from kafkad.core.controller.topics.names import check_topic_name
from kafkad.core.errors import ErrorCode, KafkaError


def unknown_topic_error(name: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def is_legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except KafkaError:
        return False
    return True
