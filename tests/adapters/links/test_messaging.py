"""Links between processes: order, no blocking, and nothing of a dead incarnation reaches the next."""

import select
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from kafkad.adapters.links.messaging import (
    LINKED_ROLES,
    RANKS,
    Link,
    LinkOverflow,
    LinkSet,
    PeerGone,
    PeerJoined,
    PeerReplaced,
    RuntimePathTooLong,
    binds,
    check_runtime_path,
    is_linked,
    link_endpoint,
)
from kafkad.adapters.shared_memory.process_registry import ProcessEntry, ProcessKey, ProcessState

WORKER = ProcessKey("worker", 0)
NETWORK = ProcessKey("network", 2)
SILENCE_S = 60.0
"""Nothing at all comes for so long: then nothing will. How long everything takes is the machine's affair."""

Context = zmq.Context[zmq.Socket[bytes]]


@pytest.fixture
def context() -> Iterator[Context]:
    made: Context = zmq.Context()
    yield made
    made.destroy(linger=0)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Not tmp_path: sockets need short paths."""
    with tempfile.TemporaryDirectory(prefix="kt-") as name:
        yield Path(name)


def pair(context: Context, folder: Path, **options: int) -> tuple[Link, Link]:
    endpoint = link_endpoint(folder, WORKER, 1, NETWORK, 1)
    bound = Link(context, endpoint, bind=True, **options)
    connected = Link(context, endpoint, bind=False, **options)
    connected.send(b"connected")
    assert receive(bound, 1) == [b"connected"]
    return bound, connected


def receive(link: Link, count: int) -> list[bytes]:
    """The next `count` messages, waiting only at the descriptor, as an event loop does."""
    frames: list[bytes] = []
    deadline = time.monotonic() + SILENCE_S
    while len(frames) < count:
        if not link.has_input():
            wait(deadline, link)
        link.flush()
        if came := link.receive():
            frames += came
            deadline = time.monotonic() + SILENCE_S
    return frames


def wait(deadline: float, *links: Link) -> None:
    """Until a descriptor says that there is something; after a long silence, says whether it should have."""
    if not select.select([link.fd for link in links], [], [], max(0.0, deadline - time.monotonic()))[0]:
        assert not any(link.has_input() for link in links), "there is input of which no descriptor has told"
        raise AssertionError(f"nothing has come for {SILENCE_S} s")


def eventually(link: Link, is_true: Callable[[], bool]) -> None:
    """Until `is_true`, looking again whenever the link has something."""
    deadline = time.monotonic() + SILENCE_S
    while not is_true():
        link.has_input()
        if not is_true():
            wait(deadline, link)


def entry(key: ProcessKey, incarnation: int, state: ProcessState = ProcessState.READY) -> ProcessEntry:
    return ProcessEntry(key, incarnation, 4711, state)


def test_messages_arrive_in_order_in_both_directions(context: Context, folder: Path) -> None:
    bound, connected = pair(context, folder)
    for number in range(50):
        bound.send(b"down %d" % number)
        connected.send(memoryview(b"up %d" % number))
    assert receive(connected, 50) == [b"down %d" % number for number in range(50)]
    assert receive(bound, 50) == [b"up %d" % number for number in range(50)]


def test_sent_buffer_may_be_used_again_at_once(context: Context, folder: Path) -> None:
    bound, connected = pair(context, folder)
    buffer = bytearray(b"x" * 200_000)
    connected.send(memoryview(buffer))
    buffer[:] = b"y" * 200_000
    assert receive(bound, 1) == [b"x" * 200_000]


def test_send_before_anybody_connects_waits_here(context: Context, folder: Path) -> None:
    endpoint = link_endpoint(folder, WORKER, 1, NETWORK, 1)
    bound = Link(context, endpoint, bind=True)
    bound.send(b"early")
    assert bound.backlog == 1
    connected = Link(context, endpoint, bind=False)
    eventually(bound, bound.flush)
    assert receive(connected, 1) == [b"early"]


def test_link_with_a_backlog_wants_a_look_after_a_read_took_the_news(context: Context, folder: Path) -> None:
    """The read handles the news that somebody connected; the descriptor stays quiet afterwards."""
    endpoint = link_endpoint(folder, WORKER, 1, NETWORK, 1)
    bound = Link(context, endpoint, bind=True)
    bound.send(b"early")
    assert not bound.has_input()
    connected = Link(context, endpoint, bind=False)
    wait(time.monotonic() + SILENCE_S, bound)
    bound.receive()
    assert bound.needs_check
    eventually(bound, bound.flush)
    assert receive(connected, 1) == [b"early"]


def test_full_link_keeps_order_and_never_blocks(context: Context, folder: Path) -> None:
    bound, connected = pair(context, folder, high_water_mark=10)
    count = 2000
    for number in range(count):
        bound.send(b"%d" % number + bytes(500))
    assert bound.backlog > 0
    got: list[bytes] = []
    deadline = time.monotonic() + SILENCE_S
    while len(got) < count:
        if not bound.has_input() and not connected.has_input():
            wait(deadline, bound, connected)
        bound.flush()
        if came := connected.receive():
            got += came
            deadline = time.monotonic() + SILENCE_S
    assert [int(frame.rstrip(b"\0")) for frame in got] == list(range(count))


def test_peer_that_never_reads_overflows_the_local_queue(context: Context, folder: Path) -> None:
    bound = Link(context, link_endpoint(folder, WORKER, 1, NETWORK, 1), bind=True, backlog_limit=3)
    for _ in range(3):
        bound.send(b"x")
    with pytest.raises(LinkOverflow, match="3 messages"):
        bound.send(b"x")
    assert bound.backlog == 3


def test_limited_read_says_that_there_is_more(context: Context, folder: Path) -> None:
    bound, connected = pair(context, folder)
    for number in range(5):
        connected.send(b"%d" % number)
    eventually(bound, bound.has_input)
    first: list[bytes] = []
    while not first:
        first = bound.receive(limit=2)
    if len(first) == 2:
        assert bound.needs_check
    assert first + receive(bound, 5 - len(first)) == [b"0", b"1", b"2", b"3", b"4"]


def test_input_is_noticed_although_a_send_swallowed_the_edge(context: Context, folder: Path) -> None:
    bound, connected = pair(context, folder)
    connected.send(b"first")
    assert receive(bound, 1) == [b"first"]
    for number in range(500):
        connected.send(b"%d" % number)
        # A send handles ZeroMQ's commands, the news of input among them, and the descriptor goes quiet.
        bound.send(b"answer")
        assert bound.needs_check
        assert receive(bound, 1) == [b"%d" % number]


def test_both_sides_name_the_same_endpoint_and_one_binds(folder: Path) -> None:
    endpoint = link_endpoint(folder, WORKER, 3, NETWORK, 5)
    assert endpoint == link_endpoint(folder, NETWORK, 5, WORKER, 3)
    assert endpoint == f"ipc://{folder}/worker0.3-network2.5"
    for first, second in LINKED_ROLES:
        a, b = ProcessKey(first, 0), ProcessKey(second, 1)
        assert binds(a, b) and not binds(b, a) and is_linked(a, b) and is_linked(b, a)


def test_only_roles_of_the_table_are_linked() -> None:
    linked = {(a, b) for a in RANKS for b in RANKS if is_linked(ProcessKey(a, 0), ProcessKey(b, 1))}
    assert ("network", "cleaner") not in linked
    assert ("network", "network") not in linked
    assert len(linked) == 2 * len(LINKED_ROLES) - 1, "workers talk to workers; all others to other roles"


def test_runtime_directory_that_is_too_long_is_refused_at_start() -> None:
    with pytest.raises(RuntimePathTooLong, match=r"set kafkad\.runtime\.dir"):
        check_runtime_path(Path("/run/" + "x" * 80))
    check_runtime_path(Path("/run/kafkad/kafkad-12345678"))


def test_link_set_follows_the_lives_of_its_peers(context: Context, folder: Path) -> None:
    links = LinkSet(context, folder, WORKER, 1)
    seen = [
        links.update([entry(NETWORK, 1, ProcessState.STARTING), entry(WORKER, 1)]),
        links.update([entry(NETWORK, 1)]),
        links.update([entry(NETWORK, 2, ProcessState.DEAD)]),
        links.update([entry(NETWORK, 2, ProcessState.DEAD)]),
        links.update([entry(NETWORK, 2)]),
        links.update([entry(NETWORK, 3)]),
    ]
    assert seen == [
        [PeerJoined(NETWORK, 1)],
        [],
        [PeerGone(NETWORK, 1)],
        [],
        [PeerReplaced(NETWORK, 1, 2)],
        [PeerReplaced(NETWORK, 2, 3)],
    ]
    assert links.incarnation(NETWORK) == 3


def test_link_set_tells_of_links_while_they_are_usable(context: Context, folder: Path) -> None:
    told: list[tuple[str, int]] = []
    links = LinkSet(
        context,
        folder,
        WORKER,
        1,
        opened=lambda peer, link: told.append(("opened", link.fd)),
        closing=lambda peer, link: told.append(("closing", link.fd)),
    )
    links.update([entry(NETWORK, 1)])
    links.update([entry(NETWORK, 2)])
    links.close()
    assert [what for what, _ in told] == ["opened", "closing", "opened", "closing"]
    assert told[0][1] == told[1][1]


def test_nothing_queued_for_a_dead_life_reaches_its_successor(context: Context, folder: Path) -> None:
    network = LinkSet(context, folder, NETWORK, 1)
    network.update([entry(WORKER, 1)])
    first_worker = LinkSet(context, folder, WORKER, 1)
    first_worker.update([entry(NETWORK, 1)])
    old = network.link(WORKER)
    assert old is not None
    for _ in range(3000):
        old.send(b"for the first life")
    # The first incarnation dies without having read; its successor binds, and only then the other side hears of it.
    first_worker.close()
    second_worker = LinkSet(context, folder, WORKER, 2)
    second_worker.update([entry(NETWORK, 1)])
    assert network.update([entry(WORKER, 2)]) == [PeerReplaced(WORKER, 1, 2)]
    new, heard = network.link(WORKER), second_worker.link(NETWORK)
    assert new is not None and heard is not None
    new.send(b"for the second life")
    assert receive(heard, 1) == [b"for the second life"]
    assert heard.receive() == []


def test_nothing_from_a_dead_life_is_read_after_its_replacement(context: Context, folder: Path) -> None:
    network = LinkSet(context, folder, NETWORK, 1)
    network.update([entry(WORKER, 1)])
    worker = LinkSet(context, folder, WORKER, 1)
    worker.update([entry(NETWORK, 1)])
    speaking, worker_messages = worker.link(NETWORK), network.link(WORKER)
    assert speaking is not None and worker_messages is not None
    speaking.send(b"last words")
    eventually(speaking, speaking.flush)
    eventually(worker_messages, worker_messages.has_input)
    network.update([entry(WORKER, 2)])
    replacement = network.link(WORKER)
    assert replacement is not None and replacement is not worker_messages
    assert replacement.receive() == []
