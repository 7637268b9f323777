"""AlterPartitionReassignments: which replicas may a partition have? (ReplicationControlManager.java)

Replicas don't move between brokers yet, so a reassignment names those that the partition has, and is done at once.
Tools that move replicas between log directories ask for that.
"""

from collections.abc import Sequence

from kafkad.core.controller.image import MetadataImage
from kafkad.core.controller.topics.assignment import validate_manual
from kafkad.core.errors import ErrorCode, KafkaError


def check_reassignment(image: MetadataImage, topic: str, index: int, replicas: Sequence[int] | None) -> None:
    """`replicas` None ends a reassignment that is under way. Raises `KafkaError`."""
    known = image.topics.get(topic)
    if known is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}.")
    if not 0 <= index < len(known.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}.")
    if replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    wanted = validate_manual(replicas, image.brokers, None)
    if wanted != known.partitions[index].replicas:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Replicas can't be moved to other brokers yet.")
