"""Detects partitions that tools added in topic nodes, so that the controller creates them (PartitionModifications).

Kafka's tools up to 2.x write there (`kafka-topics.sh --zookeeper --alter --partitions`). As with Apache Kafka, changes
to existing partitions apply from the next term on. A repaired node of a topic brings the topic back.
"""

from msgspec import MsgspecError

from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationStore


class TopicNodes:
    """The topic nodes of one term. Reading the first topics of the term set their watches."""

    def __init__(self, controller: ElectedController, store: CoordinationStore) -> None:
        self._controller = controller
        self._store = store
        self._watched = controller.image.topics.keys() | controller.unreadable_topics

    def have_grown(self, changed: str) -> bool:
        """Whether a topic node has more partitions than the image. `changed` is the path of a fired watch. The watch of
        a topic is set again; for any other path, watches are set on topics created since.
        """
        topics, unreadable = self._controller.image.topics, self._controller.unreadable_topics
        name = changed.removeprefix(f"{nodes.TOPICS}/")
        if name == changed:
            self._watched &= topics.keys() | unreadable
            names = sorted((topics.keys() | unreadable) - self._watched)
        else:
            # This topic only: thousands may be deleted or reassigned at once.
            self._watched.discard(name)
            names = [name] if name in topics or name in unreadable else []
        self._watched.update(names)
        read = self._store.get_many([nodes.topic_path(name) for name in names], watch=True)
        return any(
            node is not None and _partitions(node.data) > (len(topics[name].partitions) if name in topics else 0)
            for name, node in zip(names, read, strict=True)
        )


def _partitions(data: bytes) -> int:
    """0 for an unreadable node: the topic stays as it is until the next term."""
    try:
        return len(nodes.read_topic(data).partitions)
    except (MsgspecError, ValueError, RecursionError):
        return 0
