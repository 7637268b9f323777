"""Has somebody else added partitions to a topic, in its node? Then the controller makes them (PartitionModifications).

Kafka's tools up to 2.x write there (`kafka-topics.sh --zookeeper --alter --partitions`). What is said of partitions
that are known holds from the next term on, as with Apache Kafka. A node that could not be read, and has been mended,
brings its topic back.
"""

from msgspec import MsgspecError

from kafkad.core.controller.elected.elected import ElectedController
from kafkad.core.controller.store import nodes
from kafkad.core.coordination_store import CoordinationStore


class TopicNodes:
    """Those of one term. What the term began with is watched since it was read."""

    def __init__(self, controller: ElectedController, store: CoordinationStore) -> None:
        self._controller = controller
        self._store = store
        self._watched = controller.image.topics.keys() | controller.unreadable_topics

    def have_grown(self, changed: str) -> bool:
        """Whether a topic has more partitions than are known. `changed` is a path whose watch has fired: a topic's is
        watched on; another one may tell of topics that were made since, which are watched from now on.
        """
        known, unreadable = self._controller.image.topics, self._controller.unreadable_topics
        name = changed.removeprefix(f"{nodes.TOPICS}/")
        if name == changed:
            self._watched &= known.keys() | unreadable
            names = sorted((known.keys() | unreadable) - self._watched)
        else:
            # Of this one only: thousands may be deleted or reassigned at once.
            self._watched.discard(name)
            names = [name] if name in known or name in unreadable else []
        self._watched.update(names)
        read = self._store.get_many([nodes.topic_path(name) for name in names], watch=True)
        return any(
            node is not None and _partitions(node.data) > (len(known[name].partitions) if name in known else 0)
            for name, node in zip(names, read, strict=True)
        )


def _partitions(data: bytes) -> int:
    """0 for a node that can't be read: what is known of the topic holds until the next term."""
    try:
        return len(nodes.read_topic(data).partitions)
    except (MsgspecError, ValueError, RecursionError):
        return 0
