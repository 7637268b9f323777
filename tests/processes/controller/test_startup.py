"""What the controller asks of the store before it reads the log directories."""

from pathlib import Path
from uuid import UUID

from kafkad.adapters.stores.embedded_store import FILE_NAME, EmbeddedStore
from kafkad.core.controller.startup.term import claim, ensure_paths
from kafkad.core.controller.store.stored_metadata import PartitionState, StoredTopic
from kafkad.core.controller.store.tree import MetadataTree
from kafkad.core.types import TopicPartition
from kafkad.processes.controller.startup import partitions_with_states
from kafkad.processes.controller.tree_reader import read_topics


def test_a_topic_whose_creation_was_interrupted_is_looked_at_on_the_disk(tmp_path: Path) -> None:
    """Its first leader epoch has to be above those in the logs that were taken over."""
    store = EmbeddedStore(tmp_path / FILE_NAME, session_id=1)
    ensure_paths(store)
    tree = MetadataTree(store, claim(store, 1, 0))
    names = ("whole", "half", "bare")
    new = [StoredTopic(name=name, id=UUID(int=3), assignments=((1,), (1,)), states={}, configs={}) for name in names]
    tree.create_topics(new)
    state = PartitionState(leader=1, leader_epoch=7, isr=(1,))
    tree.create_states({TopicPartition(*each): state for each in (("whole", 0), ("whole", 1), ("half", 0))})
    topics, _ = read_topics(store)
    assert partitions_with_states(store, topics) == {"whole": 2}
    store.close()
