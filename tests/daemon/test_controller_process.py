"""A real controller process with the real store; the test plays its workers, networks and supervisor.

It needs a real process: it is killed at any moment, stands still, and says to a real channel why it ends.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.delete_topics.v6.response import DeleteTopicsResponse
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i32Timedelta

from bench.brokers.processes import eventually
from kafkad.adapters.files.checkpoint_files import read_offsets, write_offsets
from kafkad.adapters.files.log_directory import read_meta_properties, write_partition_metadata
from kafkad.adapters.links.supervision_channel import Fatal
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.adapters.stores.embedded_store import FILE_NAME
from kafkad.core.controller.image import NO_LOG_DIR, Topic
from kafkad.core.errors import ErrorCode
from kafkad.core.log.recovery.checkpoints import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from kafkad.core.metrics.catalogue import BUSY_NS
from kafkad.core.partition_slot import STATE_FREE
from kafkad.core.types import TopicPartition
from kafkad.processes.controller import main
from kafkad.wire import api_table
from kafkad.wire.processes.controller_messages import (
    AdminReply,
    AdminRequest,
    LogDirFailed,
    LogsMoved,
    SnapshotRequest,
)
from tests.contexts import a_context
from tests.daemon.played_worker import CONTROLLER, PlayedProcess, PlayedWorker
from tests.daemon.stage import Stage

WORKERS = (ProcessKey("worker", 0), ProcessKey("worker", 1))
NETWORK = ProcessKey("network", 0)
CHECKPOINT_OFTEN = (
    ("replica.high.watermark.checkpoint.interval.ms", "20"),
    ("log.flush.offset.checkpoint.interval.ms", "30"),
    ("log.flush.start.offset.checkpoint.interval.ms", "30"),
    ("log.initial.task.delay.ms", "0"),
)


class Broker:
    """A controller on stage with its peers."""

    def __init__(self, base: Path, *overrides: tuple[str, str]) -> None:
        self.stage = Stage(base, [CONTROLLER, *WORKERS, NETWORK], overrides)
        self.data = [Path(path) for path in self.stage.config.log_dirs.log_dirs]
        self._token = 0

    def start(self) -> None:
        self.stage.fork(CONTROLLER, main)
        self.workers = [PlayedWorker(self.stage, key) for key in WORKERS]
        self.network = PlayedProcess(self.stage, NETWORK)
        self.stage.until_ready()
        self._until_elected()

    def _until_elected(self) -> None:
        self.settle()
        self.delete()
        self.network.heard.clear()

    def restart_controller(self) -> None:
        """Another life in the living broker, after `kill`."""
        self.stage.fork(CONTROLLER, main)
        self.stage.tell_roster()
        self.until(lambda: self.stage.said, "the new controller is ready")
        self.stage.until_ready()
        self._until_elected()

    def restart_broker(self) -> None:
        self.stage.end_broker()
        self.stage.begin_broker()
        self.start()

    @property
    def everyone(self) -> list[PlayedProcess]:
        return [*self.workers, self.network]

    def until(self, condition: Callable[[], object], what: str) -> None:
        def met() -> object:
            for each in self.everyone:
                if each.key in self.stage.actors:
                    each.act()
            return condition()

        self.stage.until(met, what)

    def settle(self) -> None:
        """Until everybody has what the controller has announced."""
        registry = self.stage.shared.registry
        self.until(
            lambda: (
                registry.metadata_version
                and all(each.image.version == registry.metadata_version for each in self.everyone)
            ),
            "everybody has the metadata",
        )

    def ask(self, api_key: int, version: int, request: Any) -> int:
        buffer = BytesIO()
        entity_writer(type(request))(buffer, request)
        self._token += 1
        self.network.tell(AdminRequest(self._token, a_context(version, api_key=api_key), buffer.getvalue()))
        return self._token

    def replies(self, token: int) -> list[AdminReply]:
        return [each for each in self.network.heard if isinstance(each, AdminReply) and each.token == token]

    def answer(self, token: int) -> bytes:
        self.until(lambda: self.replies(token), "the controller replies")
        body = self.replies(token)[0].body
        assert body is not None
        return body

    def ask_create(self, *names: str, partitions: int = 2, timeout_s: float = 30) -> int:
        topics = tuple(
            CreatableTopic(
                name=TopicName(name),
                num_partitions=i32(partitions),
                replication_factor=i16(-1),
                assignments=(),
                configs=(),
            )
            for name in names
        )
        timeout = i32Timedelta.parse(timedelta(seconds=timeout_s))
        return self.ask(api_table.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics, timeout=timeout))

    def create(self, *names: str, partitions: int = 2) -> dict[str, int]:
        response, _ = entity_reader(CreateTopicsResponse)(
            self.answer(self.ask_create(*names, partitions=partitions)), 0
        )
        return {str(topic.name): int(topic.error_code) for topic in response.topics}

    def ask_delete(self, *names: str) -> int:
        topics = tuple(DeleteTopicState(name=TopicName(name), topic_id=None) for name in names)
        timeout = i32Timedelta.parse(timedelta(seconds=30))
        return self.ask(api_table.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=topics, timeout=timeout))

    def delete(self, *names: str) -> dict[str, int]:
        response, _ = entity_reader(DeleteTopicsResponse)(self.answer(self.ask_delete(*names)), 0)
        return {str(topic.name): int(topic.error_code) for topic in response.responses}

    def topic(self, name: str) -> Topic:
        return self.network.image.topics[name]

    def places(self, name: str) -> list[tuple[int, int, int]]:
        return [(row.slot, row.owner, row.log_dir) for row in self.topic(name).partitions]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path, ("log.dirs", f"{tmp_path}/a,{tmp_path}/b"), *CHECKPOINT_OFTEN)
    yield broker
    broker.stage.close()


def test_first_start_gives_every_log_directory_one_cluster_and_everybody_one_snapshot(broker: Broker) -> None:
    broker.start()
    found = [read_meta_properties(path) for path in broker.data]
    assert [each.cluster_id for each in found if each] == [broker.network.image.cluster_id] * 2
    assert len({each.directory_id for each in found if each}) == 2
    assert [each.snapshots for each in broker.everyone] == [1, 1, 1]
    assert broker.network.image.brokers[1].listeners[0].port == broker.stage.resources.endpoints[0].port


def test_a_fresh_store_takes_over_the_cluster_of_the_log_directories(broker: Broker) -> None:
    broker.stage.directories[1].claim(cluster_id="before", node_id=1, new_directory_id=UUID(int=2**100))
    broker.start()
    assert broker.network.image.cluster_id == "before"


def test_log_directories_of_two_clusters_stop_the_broker_with_one_line(broker: Broker) -> None:
    for directory, cluster in zip(broker.stage.directories, ("one", "two"), strict=True):
        directory.claim(cluster_id=cluster, node_id=1, new_directory_id=UUID(int=2**100))
    broker.stage.fork(CONTROLLER, main)
    broker.stage.until(lambda: broker.stage.said, "the controller gives up")
    (fatal,) = broker.stage.said
    assert isinstance(fatal, Fatal)
    assert fatal.exit_code == 2
    assert "different clusters" in fatal.text


def test_a_reply_waits_until_workers_and_networks_have_applied_what_it_tells(broker: Broker) -> None:
    broker.start()
    token = broker.ask_create("t")
    worker = broker.workers[0]
    inbox = broker.stage.actors[worker.key].frames
    broker.stage.until(lambda: inbox, "the worker is told")
    broker.workers[1].act()
    broker.network.tell(AdminRequest(77, a_context(7, api_key=api_table.CREATE_TOPICS), b""))

    def later_request_is_answered() -> bool:
        broker.network.act()
        return bool(broker.replies(77))

    broker.stage.until(later_request_is_answered, "what needs no waiting is answered meanwhile")
    assert not broker.replies(token)
    broker.answer(token)
    assert len(broker.topic("t").partitions) == 2


def test_a_reply_does_not_wait_longer_than_the_client(broker: Broker) -> None:
    broker.start()
    token = broker.ask_create("t", timeout_s=0.02)

    def is_answered() -> bool:
        broker.network.act()  # nobody else acts
        return bool(broker.replies(token))

    broker.stage.until(is_answered, "the reply comes without the workers")


def test_a_request_that_can_not_be_read_closes_the_connection(broker: Broker) -> None:
    broker.start()
    broker.network.tell(AdminRequest(9, a_context(7, api_key=api_table.CREATE_TOPICS), b"\xff"))
    broker.until(lambda: broker.replies(9), "the controller replies")
    assert broker.replies(9)[0].body is None
    assert broker.replies(9)[0].reason


def test_whoever_has_lost_the_thread_gets_a_snapshot(broker: Broker) -> None:
    broker.start()
    broker.create("t")
    broker.network.tell(SnapshotRequest(broker.network.image.version))
    broker.until(lambda: broker.network.snapshots == 2, "a second snapshot comes")


def test_an_answer_for_a_process_that_died_is_not_given_to_its_successor(broker: Broker) -> None:
    broker.start()
    broker.ask_create("t")
    broker.stage.until(lambda: broker.stage.actors[NETWORK].frames, "the topic is made")
    broker.stage.end_actor(NETWORK)
    broker.network = PlayedProcess(broker.stage, NETWORK)
    broker.settle()
    assert broker.create("u") == {"u": 0}
    assert len(broker.network.heard) == 1


# Restarts in a living broker.


def test_a_restarted_controller_finds_every_partition_where_it_was(broker: Broker) -> None:
    broker.start()
    broker.create("t", "u", partitions=5)
    before = broker.places("t"), broker.places("u"), broker.network.image.version
    broker.stage.kill()
    broker.restart_controller()
    assert (broker.places("t"), broker.places("u")) == before[:2]
    assert broker.network.image.version > before[2]
    assert broker.create("v", partitions=3) == {"v": 0}
    slots = [slot for name in "tuv" for slot, _, _ in broker.places(name)]
    assert len(set(slots)) == 13


def test_a_new_life_waits_until_the_workers_have_let_go_of_the_old_one(broker: Broker) -> None:
    broker.start()
    broker.ask_create("t", partitions=6)
    inboxes = [broker.stage.actors[key].frames for key in WORKERS]
    broker.stage.until(lambda: all(inboxes), "the change is on its way")
    broker.stage.kill()
    broker.stage.fork(CONTROLLER, main)
    looks = iter(range(15))
    broker.stage.until(lambda: broker.stage.said or next(looks, None) is None, "it has had its chance")
    assert not broker.stage.said
    # What the dead controller has sent is acted on only now, and counts all the same.
    for worker in broker.workers:
        worker.act()
    published = {slot for worker in broker.workers for slot in worker.owned}
    broker.stage.tell_roster()
    broker.until(lambda: broker.stage.said, "the new controller is ready")
    broker.settle()
    assert {slot for slot, _, _ in broker.places("t")} == published


MOMENTS = ("asked", "written", "sent")


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_while_it_creates_topics_it_ends_with_all_of_them_once(broker: Broker, moment: str) -> None:
    broker.start()
    names = [f"t{number}" for number in range(20)]
    store = broker.data[0] / f"{FILE_NAME}-wal"
    before, inbox = store.read_bytes(), broker.stage.actors[NETWORK].frames
    reached = {"asked": lambda: True, "written": lambda: store.read_bytes() != before, "sent": lambda: inbox}
    token = broker.ask_create(*names)
    broker.stage.until(reached[moment], "it has got so far")
    broker.stage.kill()
    broker.stage.tell_roster()
    broker.restart_controller()
    assert not broker.replies(token)
    outcomes = broker.create(*names)
    assert set(outcomes.values()) <= {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}
    slots = [slot for name in names for slot, _, _ in broker.places(name)]
    assert len(set(slots)) == len(slots) == 40
    table = broker.stage.shared.table
    for name in names:
        for row in broker.topic(name).partitions:
            assert table.read(row.slot).topic_id == broker.topic(name).id.bytes
            assert (broker.data[row.log_dir] / f"{name}-{row.index}").is_dir()


def test_killed_while_it_deletes_topics_nothing_of_them_is_left(broker: Broker) -> None:
    broker.start()
    broker.create("t", "u", "stays")
    slots = {slot for name in "tu" for slot, _, _ in broker.places(name)}
    for worker in broker.workers:
        worker.removes = False
    broker.ask_delete("t", "u")
    broker.until(lambda: "t" not in broker.network.image.topics, "the topics are gone")
    broker.stage.kill()
    broker.stage.tell_roster()
    broker.restart_controller()
    # Their workers have not freed the slots, and would free them under a new topic.
    assert broker.create("v") == {"v": 0}
    assert not slots & {slot for slot, _, _ in broker.places("v")}
    for worker in broker.workers:
        worker.removes = True
        broker.stage.end_actor(worker.key)
    broker.workers = [PlayedWorker(broker.stage, key) for key in WORKERS]
    broker.until(lambda: set(broker.create("t").values()) == {0}, "the name is free again")
    assert sorted(broker.network.image.topics) == ["stays", "t", "v"]
    new = {f"t-{row.index}" for row in broker.topic("t").partitions}
    assert not [
        path
        for data in broker.data
        for path in data.iterdir()
        if path.name.startswith(("t-", "u-"))
        if path.name not in new and not path.name.endswith("-delete")
    ]


def test_a_deletion_survives_the_worker_that_should_carry_it_out(broker: Broker) -> None:
    broker.start()
    broker.create("t")
    slots = [slot for slot, _, _ in broker.places("t")]
    for worker in broker.workers:
        worker.removes = worker.applies = False
    token = broker.ask_delete("t")
    broker.until(lambda: "t" not in broker.network.image.topics, "the topic is gone")
    assert not broker.replies(token)
    for worker in broker.workers:
        broker.stage.end_actor(worker.key)
    broker.workers = [PlayedWorker(broker.stage, key) for key in WORKERS]
    broker.answer(token)
    assert not [path for data in broker.data for path in data.glob("t-*") if path.name in ("t-0", "t-1")]
    assert {broker.stage.shared.table.read(slot).state for slot in slots} == {STATE_FREE}


def test_a_slot_is_used_again_only_after_its_worker_has_freed_it(broker: Broker) -> None:
    broker.start()
    broker.create("t", partitions=4)
    slots = {slot for slot, _, _ in broker.places("t")}
    for worker in broker.workers:
        worker.removes = False
    broker.ask_delete("t")
    broker.until(lambda: "t" not in broker.network.image.topics, "the topic is gone")
    broker.create("u", partitions=4)
    assert not slots & {slot for slot, _, _ in broker.places("u")}


# Restarts of the broker.


def test_topics_that_only_the_disk_knows_are_taken_over_with_their_ids(broker: Broker) -> None:
    topic_id = UUID(int=77)
    for partition in range(2):
        directory = broker.data[1] / f"kept-{partition}"
        directory.mkdir()
        write_partition_metadata(directory, topic_id)
        (directory / "leader-epoch-checkpoint").write_text("0\n1\n6 0\n")
    broker.start()
    assert broker.topic("kept").id == topic_id
    assert [row.log_dir for row in broker.topic("kept").partitions] == [1, 1]
    assert [row.leader_epoch for row in broker.topic("kept").partitions] == [7, 7]


def test_a_directory_of_another_topic_of_the_same_name_is_set_aside(broker: Broker) -> None:
    broker.start()
    broker.create("t", partitions=1)
    home = broker.data[broker.topic("t").partitions[0].log_dir] / "t-0"
    broker.stage.stop()
    write_partition_metadata(home, UUID(int=5))
    (home / "mine").touch()
    broker.restart_broker()
    strays = [path for data in broker.data for path in data.glob("*-stray")]
    assert [(path / "mine").exists() for path in strays] == [True]


# Disks.


def test_a_failed_log_directory_stays_failed_for_the_next_controller(broker: Broker) -> None:
    broker.start()
    broker.create("t", partitions=4)
    broker.workers[0].tell(LogDirFailed(1, "Input/output error"))
    broker.until(lambda: any(row.log_dir == NO_LOG_DIR for row in broker.topic("t").partitions), "it is told")
    before = broker.places("t")
    broker.stage.kill()
    broker.restart_controller()
    assert broker.places("t") == before
    broker.create("u", partitions=4)
    assert {row.log_dir for row in broker.topic("u").partitions} == {0}


def test_without_any_log_directory_the_broker_stops(broker: Broker) -> None:
    broker.start()
    broker.workers[0].tell(LogDirFailed(0, "gone"))
    broker.workers[0].tell(LogDirFailed(1, "gone"))
    broker.until(lambda: any(isinstance(each, Fatal) for each in broker.stage.said), "the controller gives up")
    (fatal,) = (each for each in broker.stage.said if isinstance(each, Fatal))
    assert "every log directory has failed" in fatal.text


# Checkpoints.


def _offsets(broker: Broker, name: str) -> dict[TopicPartition, int]:
    return {key: value for path in broker.data for key, value in read_offsets(path, name).items()}


def test_what_moved_is_checkpointed_in_the_directory_where_it_is(broker: Broker) -> None:
    broker.start()
    broker.create("t")
    for row in broker.topic("t").partitions:
        worker = broker.workers[row.owner]
        worker.publish(row.slot, row.index, broker.topic("t").id, log_dir=row.log_dir, end=10 + row.index)
        worker.tell(LogsMoved())
    expected = {TopicPartition("t", 0): 10, TopicPartition("t", 1): 11}
    eventually(lambda: _offsets(broker, HIGH_WATERMARKS) == expected, what="high watermarks are written")
    eventually(lambda: _offsets(broker, RECOVERY_POINTS) == expected, what="recovery points are written")
    for row in broker.topic("t").partitions:
        assert TopicPartition("t", row.index) in read_offsets(broker.data[row.log_dir], HIGH_WATERMARKS)


def test_an_orderly_stop_writes_the_last_checkpoint(broker: Broker) -> None:
    broker.start()
    broker.create("t", partitions=1)
    (row,) = broker.topic("t").partitions
    broker.workers[row.owner].publish(row.slot, 0, broker.topic("t").id, log_dir=row.log_dir, end=99)
    assert broker.stage.stop().is_clean
    assert _offsets(broker, RECOVERY_POINTS) == {TopicPartition("t", 0): 99}


def test_a_partition_that_is_not_loaded_yet_keeps_its_checkpoints(broker: Broker) -> None:
    broker.start()
    broker.create("t", partitions=1)
    (row,) = broker.topic("t").partitions
    broker.stage.stop()
    write_offsets(broker.data[row.log_dir], LOG_START_OFFSETS, {TopicPartition("t", 0): 41})
    (broker.data[row.log_dir] / "t-0").mkdir(exist_ok=True)
    broker.stage.end_broker()
    broker.stage.begin_broker()
    broker.stage.fork(CONTROLLER, main)
    broker.stage.until_ready()
    broker.stage.stop()
    assert _offsets(broker, LOG_START_OFFSETS) == {TopicPartition("t", 0): 41}


def test_the_heart_beats_between_requests_that_each_wait_for_the_disk(broker: Broker) -> None:
    """A hundred of them in one pass took longer on a slow disk than the supervisor lets a process be silent."""
    broker.start()
    shared = broker.stage.shared
    block = shared.counters.block(shared.registry.slot(CONTROLLER))
    beats: set[int] = set()
    is_over = Event()

    def watch() -> None:
        while not is_over.is_set():
            beats.add(block[BUSY_NS])

    with broker.stage.paused():
        tokens = [broker.ask_create(f"t-{number}") for number in range(60)]
        beats.add(block[BUSY_NS])
    watching = Thread(target=watch)
    watching.start()
    try:
        broker.until(lambda: broker.replies(tokens[-1]), "the last one is answered")
    finally:
        is_over.set()
        watching.join()
    assert len(beats) > len(tokens) // 3
