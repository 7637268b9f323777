"""Rings in shared memory: nothing is lost, doubled or reordered, whoever dies, and no sleeper is forgotten."""

import os
import random
import select
import signal
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from struct import Struct

import multiprocess
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from multiprocess.process import BaseProcess

from bench.brokers.processes import WITHIN_S
from kafkad.adapters.shared_memory.descriptor_ring import (
    DATA_BYTES,
    LARGEST_MESSAGE,
    Doorbell,
    RingOverflow,
    RingReader,
)
from tests.adapters.ring_ends import RingEnds

NUMBER = Struct("<Q")
LOST_WAKE_UP_S = 10.0


@pytest.fixture
def rings() -> Iterator[RingEnds]:
    made = RingEnds()
    yield made
    made.close()


def test_messages_come_out_whole_and_in_order(rings: RingEnds) -> None:
    writer, reader = rings.writer(), rings.reader()
    messages = [bytes((size % 251,)) * size for size in (0, 1, 3, 4, 5, 11, 12, 13, 4096, LARGEST_MESSAGE)]
    for message in messages:
        writer.send(message)
    assert reader.has_input()
    assert reader.receive() == messages
    assert not reader.has_input()
    assert reader.receive() == []


def test_empty_ring_takes_the_largest_message_wherever_it_stands(rings: RingEnds) -> None:
    writer, reader = rings.writer(), rings.reader()
    message = bytes(LARGEST_MESSAGE)
    near_the_seam = range(DATA_BYTES - LARGEST_MESSAGE - 64, DATA_BYTES, 8)
    for place in (*range(0, 64, 8), *range(0, DATA_BYTES, 4096), *near_the_seam):
        rings.stand_at(7 * DATA_BYTES + place)
        writer.send(message)
        assert not writer.has_backlog
        assert len(reader.receive()) == 1


def test_few_pages_are_used_as_long_as_little_waits(rings: RingEnds) -> None:
    writer, reader = rings.writer(), rings.reader()
    for _ in range(10_000):
        writer.send(b"m" * 100)
        assert len(reader.receive()) == 1
    assert not any(rings.region.view[64 * 1024 : 256 * 1024])


def test_what_has_no_room_waits_and_keeps_its_place(rings: RingEnds) -> None:
    writer, reader = rings.writer(), rings.reader()
    messages = [NUMBER.pack(number) + bytes(2000) for number in range(500)]
    for message in messages:
        writer.send(message)
    assert writer.has_backlog
    got: list[bytes] = []
    while writer.has_backlog:
        got += reader.receive()
        writer.flush()
    assert got + reader.receive() == messages


def test_reader_that_never_reads_ends_the_writer(rings: RingEnds) -> None:
    writer = rings.writer()
    with pytest.raises(RingOverflow, match="100000 messages wait"):
        for _ in range(150_000):
            writer.send(bytes(100))


def test_reader_skips_what_was_meant_for_its_predecessor(rings: RingEnds) -> None:
    rings.writer((1, 1)).send(b"for the dead one")
    rings.writer((1, 2)).send(b"for me")
    assert rings.reader((1, 2)).receive() == [b"for me"]


def test_reader_skips_what_the_dead_life_of_the_writer_left(rings: RingEnds) -> None:
    rings.writer((1, 1)).send(b"of the dead one")
    rings.writer((2, 1)).send(b"of the living one")
    assert rings.reader((2, 1)).receive() == [b"of the living one"]


def test_message_of_a_life_that_the_reader_has_not_heard_of_yet_is_kept_for_it(rings: RingEnds) -> None:
    rings.writer((1, 1)).send(b"of the first life")
    rings.writer((2, 1)).send(b"of the second life")
    before_the_news = rings.reader((1, 1))
    assert before_the_news.receive() == [b"of the first life"]
    # Nothing more will come for it: a loop that waits for it to become empty would not sleep.
    assert not before_the_news.has_input()
    assert rings.reader((2, 1)).receive() == [b"of the second life"]


def test_writer_that_was_killed_before_it_published_leaves_no_trace(rings: RingEnds) -> None:
    """Whatever it has stored by then lies in what is free: the counter is the last store."""
    writer, reader = rings.writer(), rings.reader()
    writer.send(b"published")
    rings.scribble(b"\xff\x00\x01")
    assert reader.receive() == [b"published"]
    rings.writer((2, 1)).send(b"next")
    assert rings.reader((2, 1)).receive() == [b"next"]


def test_awake_reader_is_not_rung(rings: RingEnds) -> None:
    writer = rings.writer()
    writer.send(b"x")
    writer.flush()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(rings.bells[1].fd)


def test_sleeping_reader_is_rung_once(rings: RingEnds) -> None:
    writer, bell = rings.writer(), rings.bells[1]
    bell.mark_asleep()
    for _ in range(3):
        writer.send(b"x")
        writer.flush()
    assert os.eventfd_read(bell.fd) == 1


def test_flush_rings_for_messages_only(rings: RingEnds) -> None:
    writer, bell = rings.writer(), rings.bells[1]
    bell.mark_asleep()
    writer.flush()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(bell.fd)


def test_message_that_found_room_late_rings_too(rings: RingEnds) -> None:
    writer, reader, bell = rings.writer(), rings.reader(), rings.bells[1]
    while not writer.has_backlog:
        writer.send(bytes(50_000))
    writer.flush()
    reader.receive()
    bell.mark_asleep()
    writer.flush()
    assert os.eventfd_read(bell.fd) == 1
    assert reader.receive() == [bytes(50_000)]


def test_a_message_that_can_wait_lets_its_reader_sleep(rings: RingEnds) -> None:
    writer, reader, bell = rings.writer(), rings.reader(), rings.bells[1]
    bell.mark_asleep()
    writer.send(b"later", wakes=False)
    writer.flush()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(bell.fd)
    assert reader.has_input()


def test_messages_that_can_wait_do_not_fill_the_ring(rings: RingEnds) -> None:
    writer, bell = rings.writer(), rings.bells[1]
    bell.mark_asleep()
    while not writer.rings_pending:
        writer.send(bytes(1_000), wakes=False)
    assert not writer.has_backlog
    writer.flush()
    assert os.eventfd_read(bell.fd) == 1


def test_a_message_that_can_wait_but_has_no_room_wakes_the_reader(rings: RingEnds) -> None:
    writer, reader, bell = rings.writer(), rings.reader(), rings.bells[1]
    while not writer.has_backlog:
        writer.send(bytes(50_000))
    writer.flush()
    reader.receive()
    bell.mark_asleep()
    writer.send(b"later", wakes=False)
    writer.flush()
    assert os.eventfd_read(bell.fd) == 1


class RingModel(RuleBasedStateMachine):
    """A ring, its two ends and their deaths, against a queue for each two incarnations."""

    def __init__(self) -> None:
        super().__init__()
        self.rings = RingEnds()
        self.count = 0
        self.writer_life = self.reader_life = 1
        self.sent: dict[tuple[int, int], deque[bytes]] = defaultdict(deque)
        self.writes, self.reads = (1, 1), (1, 1)
        self.writer, self.reader = self.rings.writer(), self.rings.reader()

    @property
    def now(self) -> tuple[int, int]:
        return self.writer_life, self.reader_life

    @rule(
        size=st.integers(8, 64) | st.integers(8, 4096) | st.integers(LARGEST_MESSAGE - 16, LARGEST_MESSAGE),
        count=st.integers(1, 40),
    )
    def send(self, size: int, count: int) -> None:
        for _ in range(count):
            self.count += 1
            message = NUMBER.pack(self.count) + bytes(size - NUMBER.size)
            self.writer.send(message)
            self.sent[self.writes].append(message)

    @rule()
    def flush(self) -> None:
        self.writer.flush()

    @rule()
    def receive(self) -> None:
        for message in self.reader.receive():
            assert self.sent[self.reads], "a message came that nobody sent between these two lives"
            assert message == self.sent[self.reads].popleft()

    @precondition(lambda self: self.writes == self.reads)
    @rule()
    def everything_arrives(self) -> None:
        self.receive()
        while self.writer.has_backlog:
            self.writer.flush()
            self.receive()
        assert not self.sent[self.reads]
        assert not self.reader.has_input()

    @rule(rubbish=st.binary(min_size=1, max_size=40))
    def writer_dies(self, rubbish: bytes) -> None:
        """In the middle of a message. The reader does not know yet."""
        self.rings.scribble(rubbish)
        self.writer_life += 1
        self.writes, self.writer = self.now, self.rings.writer(self.now)

    @rule()
    def reader_dies(self) -> None:
        """The writer does not know yet."""
        self.reader_life += 1
        self.reads, self.reader = self.now, self.rings.reader(self.now)

    @precondition(lambda self: self.writes != self.now)
    @rule()
    def writer_hears(self) -> None:
        self.writes, self.writer = self.now, self.rings.writer(self.now)

    @precondition(lambda self: self.reads != self.now)
    @rule()
    def reader_hears(self) -> None:
        self.reads, self.reader = self.now, self.rings.reader(self.now)

    def teardown(self) -> None:
        self.rings.close()


TestRingModel = RingModel.TestCase


def run_process(main: Callable[[], None]) -> BaseProcess:
    process = multiprocess.get_context("fork").Process(target=main, daemon=True)
    process.start()
    return process


def test_no_wake_up_is_lost_between_two_processes(rings: RingEnds) -> None:
    """Each sleeps whenever there is nothing to do, and only the other's bell wakes it."""
    messages = 200_000

    def sleep(bell: Doorbell, epoll: select.epoll, reader: RingReader) -> None:
        bell.mark_asleep()
        if not reader.has_input():
            assert epoll.poll(LOST_WAKE_UP_S), "a message waits, and nobody rang"
        bell.mark_awake()

    def echo() -> None:
        writer, reader = rings.writer(end=1), rings.reader()
        with select.epoll() as epoll:
            epoll.register(rings.bells[1].fd, select.EPOLLIN | select.EPOLLET)
            echoed = 0
            while echoed < messages:
                sleep(rings.bells[1], epoll, reader)
                for message in reader.receive():
                    writer.send(message)
                    echoed += 1
                writer.flush()

    other = run_process(echo)
    random_source = random.Random(7)
    writer, reader = rings.writer(), rings.reader(end=0)
    sent = 0
    back: list[int] = []
    with select.epoll() as epoll:
        epoll.register(rings.bells[0].fd, select.EPOLLIN | select.EPOLLET)
        while len(back) < messages:
            if sent - len(back) <= random_source.choice((0, 0, 3, 20)):
                burst = min(random_source.choice((1, 1, 1, 5, 50)), messages - sent)
                for number in range(sent, sent + burst):
                    writer.send(NUMBER.pack(number))
                sent += burst
                writer.flush()
            sleep(rings.bells[0], epoll, reader)
            back += [NUMBER.unpack(message)[0] for message in reader.receive()]
    other.join(WITHIN_S)
    assert other.exitcode == 0
    assert back == list(range(messages))


def test_killed_writers_leave_whole_messages_only(rings: RingEnds) -> None:
    """Each life sends the same numbers until it is killed, at any store; its successor goes on in the same ring."""
    random_source = random.Random(11)
    for incarnation in range(1, 41):
        reader = rings.reader((incarnation, 1))
        process = run_process(partial(count_for_ever, rings, incarnation))
        got: list[bytes] = []
        deadline = time.monotonic() + WITHIN_S
        enough = random_source.randrange(1, 3000)
        while len(got) < enough:
            assert time.monotonic() < deadline
            got += reader.receive()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(WITHIN_S)
        got += reader.receive()
        assert got == [numbered(incarnation, number) for number in range(len(got))]


def count_for_ever(rings: RingEnds, incarnation: int) -> None:
    writer = rings.writer((incarnation, 1))
    for number in count():
        while writer.has_backlog:
            writer.flush()
        writer.send(numbered(incarnation, number))


def numbered(incarnation: int, number: int) -> bytes:
    """Of a size and content that tell it from any other."""
    return NUMBER.pack(incarnation << 32 | number) * (1 + number % 37)
