"""The runtime around a shard: one answer for each request, none before its records are safe, state by replay only."""

from random import Random
from typing import Any

import pytest

from kafkad.core.coordinator.runtime import RETRY_MS, SHARED_RECORDS, Runtime, State
from kafkad.core.coordinator.shard import Moment, Outcome, Producer
from kafkad.core.errors import ErrorCode
from kafkad.core.log.records.batch import Codec, read_header
from kafkad.core.log.records.record import NewRecord, build_batch
from tests.amounts import seeds_of_tests
from tests.core.coordinator.memory_log import Bed, Refused
from tests.core.coordinator.tally import WAIT_MS, Added, TallyCodec, TallyShard


class SafeBed(Bed[Added]):
    """Fails when somebody is told of what is not replicated."""

    def __init__(self, compression: Codec) -> None:
        self.ends: dict[int, int] = {}
        super().__init__(TallyShard, TallyCodec(), compression=compression)

    def reply(self, token: int, reply: object) -> None:
        if isinstance(reply, tuple) and reply[0] in ("added", "sum"):
            assert self.log.high_watermark >= self.ends.get(token, self.log.log_end_offset), (token, reply)
        if isinstance(reply, tuple) and reply[0] == "shared":
            assert self.log.high_watermark > self.shard.last[reply[1]], (token, reply)
        super().reply(token, reply)

    def ask(self, *args: Any, **kwargs: Any) -> int:
        token = super().ask(*args, **kwargs)
        self.ends[token] = self.log.log_end_offset
        return token


def bed_of(compression: Codec = Codec.NONE) -> SafeBed:
    return SafeBed(compression)


def test_records_are_appended_replayed_and_answered() -> None:
    bed = bed_of()
    token = bed.ask(lambda asked: bed.shard.add(asked, "a", 3))
    assert bed.answers[token] == ("added", 3)
    assert bed.shard.sums == {"a": 3}
    assert bed.log.log_end_offset == 1


def test_one_outcome_is_one_batch() -> None:
    bed = bed_of()
    bed.perform(Outcome(records=[Added(name="a", amount=1), Added(name="b", amount=2)]))
    assert len(bed.log.written) == 1
    assert bed.shard.offsets == [0, 1]


def test_batches_carry_the_wall_clock_and_the_codec() -> None:
    bed = bed_of(Codec.ZSTD)
    bed.perform(Outcome(records=[Added(name="a", amount=1)]))
    header = read_header(bed.log.written[0])
    assert header.max_timestamp == bed.moment.wall_ms
    assert header.codec_bits == Codec.ZSTD


def test_what_is_too_large_for_a_batch_is_not_made_first(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = bed_of()
    bed.log.most_bytes = 1_000
    encoded = 0
    encode = TallyCodec.encode

    def counted(codec: TallyCodec, record: Added) -> tuple[bytes, bytes | None]:
        nonlocal encoded
        encoded += 1
        return encode(codec, record)

    monkeypatch.setattr(TallyCodec, "encode", counted)
    records = [Added(name="a", amount=number) for number in range(10_000)]
    token = bed.ask(lambda asked: Outcome(records=records, replies=[(asked.token, "done")]))
    assert bed.answers[token] == Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert bed.log.written == [] and encoded < 1_000


def test_what_fits_when_it_is_compressed_is_written() -> None:
    bed = bed_of(Codec.ZSTD)
    bed.log.most_bytes = 1_000
    bed.perform(Outcome(records=[Added(name="a", amount=1)] * 1_000))
    assert len(bed.log.written) == 1


def test_replies_wait_for_the_high_watermark_in_their_order() -> None:
    bed = bed_of()
    bed.log.lag()
    first = bed.ask(lambda asked: bed.shard.add(asked, "a", 3))
    second = bed.ask(lambda asked: bed.shard.read(asked, "a"))
    assert bed.answers == {}
    assert bed.runtime.has_deferred
    bed.replicate()
    assert list(bed.answers.items()) == [(first, ("added", 3)), (second, ("sum", 3))]


def test_high_watermark_in_the_middle_answers_only_what_it_passed() -> None:
    bed = bed_of()
    bed.log.lag()
    first = bed.ask(lambda asked: bed.shard.add(asked, "a", 1))
    bed.ask(lambda asked: bed.shard.add(asked, "a", 2))
    bed.log.replicated = 1
    bed.runtime.advanced(bed.moment)
    assert list(bed.answers) == [first]


def test_what_comes_after_is_made_when_the_record_is_safe() -> None:
    bed = bed_of()
    bed.log.lag()
    token = bed.ask(lambda asked: bed.shard.add_and_then_read(asked, "a", 1))
    bed.ask(lambda asked: bed.shard.add(asked, "a", 10))
    bed.replicate()
    assert bed.answers[token] == ("after", ErrorCode.NONE, 11)


def test_refused_append_changes_nothing_and_refuses_the_reply() -> None:
    bed = bed_of()
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    token = bed.ask(lambda asked: bed.shard.release(asked, "a"))
    after = bed.ask(lambda asked: bed.shard.add_and_then_read(asked, "a", 1))
    assert bed.answers[token] == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bed.answers[after] == ("after", ErrorCode.COORDINATOR_NOT_AVAILABLE, 0)
    assert bed.shard.sums == {}


def test_refused_append_sets_no_timer_and_says_nothing() -> None:
    bed = bed_of()
    bed.log.refusal = ErrorCode.KAFKA_STORAGE_ERROR
    deadline_ms = bed.moment.monotonic_ms + 5
    bed.perform(Outcome(records=[Added(name="a", amount=1)], timers=[("a", deadline_ms)], log_lines=["done"]))
    assert bed.runtime.deadline_of("a") is None
    assert bed.lines == []


def test_what_follows_a_request_is_caused_by_its_client() -> None:
    bed = bed_of()

    def after(_code: ErrorCode, _moment: Moment) -> Outcome[Added]:
        return Outcome(log_lines=["later"])

    bed.perform(Outcome(records=[Added(name="a", amount=1)], log_lines=["now"], after=after, host="10.0.0.1"))
    bed.replicate()
    assert list(zip(bed.lines, bed.hosts, strict=True)) == [("now", "10.0.0.1"), ("later", "10.0.0.1")]


def test_a_timer_whose_records_are_refused_comes_again_until_the_log_takes_them() -> None:
    bed = bed_of()
    bed.perform(Outcome(timers=[("+a", bed.moment.monotonic_ms + 5)]))
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    bed.advance(10_000)
    assert bed.shard.sums == {}
    bed.log.refusal = None
    bed.advance(RETRY_MS)
    assert bed.shard.sums == {"a": 1}
    bed.advance(10_000)
    assert bed.shard.sums == {"a": 1}


@pytest.mark.parametrize(
    ("appended", "told"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_clients_hear_of_a_coordinator_and_not_of_its_log(appended: ErrorCode, told: ErrorCode) -> None:
    bed = bed_of()
    bed.log.refusal = appended
    token = bed.ask(lambda asked: bed.shard.add(asked, "a", 1))
    assert bed.answers[token] == Refused(told)


def test_slow_replicas_are_given_up_after_the_timeout() -> None:
    bed = bed_of()
    bed.log.lag()
    token = bed.ask(lambda asked: bed.shard.add(asked, "a", 1))
    bed.advance(4_999)
    assert bed.answers == {}
    bed.advance(1)
    assert bed.answers[token] == Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    bed.replicate()
    assert bed.shard.sums == {"a": 1}


def test_markers_are_ordered_when_the_decision_is_safe_even_if_nobody_can_be_told() -> None:
    bed = bed_of()
    bed.log.lag()
    bed.ask(lambda asked: bed.shard.decide(asked, "t"))
    bed.advance(5_000)
    assert bed.unanswered() == []
    assert bed.markers == []
    bed.replicate()
    assert [requested.transactional_id for requested in bed.markers] == ["t"]
    bed.replicate()
    assert len(bed.markers) == 1


def test_a_request_may_wait_until_its_timer() -> None:
    bed = bed_of()
    token = bed.ask(lambda asked: bed.shard.wait(asked, "a", bed.moment))
    bed.advance(WAIT_MS - 1)
    assert bed.unanswered() == [token]
    bed.advance(1)
    assert bed.answers[token] == "too late"
    assert bed.lines == ["a waited too long"]


def test_a_timer_that_is_set_again_moves() -> None:
    bed = bed_of()
    first = bed.ask(lambda asked: bed.shard.wait(asked, "a", bed.moment))
    bed.advance(WAIT_MS - 1)
    second = bed.ask(lambda asked: bed.shard.wait(asked, "a", bed.moment))
    bed.advance(WAIT_MS - 1)
    assert bed.answers == {first: "replaced"}
    bed.advance(1)
    assert bed.answers[second] == "too late"


def test_a_cancelled_timer_does_not_run() -> None:
    bed = bed_of()
    waiting = bed.ask(lambda asked: bed.shard.wait(asked, "a", bed.moment))
    bed.ask(lambda asked: bed.shard.release(asked, "a"))
    bed.advance(10 * WAIT_MS)
    assert bed.answers[waiting] == "let go"


def test_timers_due_together_see_what_the_first_did() -> None:
    """A timer that is cancelled or moved by one of the same instant does not run any more."""
    bed = bed_of()
    ran: list[object] = []
    shard = bed.shard

    def expired(key: object, moment: object) -> Outcome[Added]:
        ran.append(key)
        now_ms = bed.moment.monotonic_ms
        return Outcome(timers=[("b", None), ("c", now_ms + 50)]) if key == "a" else Outcome()

    shard.expired = expired
    now_ms = bed.moment.monotonic_ms
    bed.perform(Outcome(timers=[("a", now_ms + 10), ("b", now_ms + 10), ("c", now_ms + 10)]))
    bed.advance(40)
    assert ran == ["a"]
    bed.advance(20)
    assert ran == ["a", "c"]


def test_a_shard_that_goes_answers_everybody() -> None:
    bed = bed_of()
    waiting = bed.ask(lambda asked: bed.shard.wait(asked, "a", bed.moment))
    bed.log.lag()
    held = bed.ask(lambda asked: bed.shard.add(asked, "a", 1))
    after = bed.ask(lambda asked: bed.shard.add_and_then_read(asked, "a", 1))
    forgotten = bed.ask(lambda asked: Outcome())
    bed.resign()
    assert bed.answers == {
        waiting: "gone",
        held: Refused(ErrorCode.NOT_COORDINATOR),
        after: ("after", ErrorCode.NOT_COORDINATOR, 2),
        forgotten: Refused(ErrorCode.NOT_COORDINATOR),
    }
    assert bed.runtime.state is State.UNLOADED
    assert len(bed.wheel) == 0


def test_answering_twice_is_our_own_mistake() -> None:
    bed = bed_of()
    token = bed.ask(lambda asked: bed.shard.read(asked, "a"))
    with pytest.raises(AssertionError, match="has a response already"):
        bed.perform(Outcome(replies=[(token, "again")]))


# Outcomes that share a batch.


def share(bed: SafeBed, *names: str) -> list[int]:
    def one(name: str) -> int:
        return bed.ask(lambda asked: bed.shard.share(asked, name, 1), shares_batch=True)

    return [one(name) for name in names]


def test_what_shares_a_batch_is_written_and_replayed_together_in_its_order() -> None:
    bed = bed_of()
    tokens = share(bed, "a", "b", "a")
    assert (bed.log.written, bed.shard.sums, bed.answers) == ([], {}, {})
    bed.runtime.settle(bed.moment)
    assert len(bed.log.written) == 1
    assert (bed.shard.sums, bed.shard.offsets) == ({"a": 2, "b": 1}, [0, 1, 2])
    assert list(bed.answers.items()) == [(token, ("shared", name)) for token, name in zip(tokens, "aba", strict=True)]
    bed.runtime.settle(bed.moment)
    assert len(bed.log.written) == 1


def test_what_shares_a_batch_is_written_before_anything_else() -> None:
    bed = bed_of()
    share(bed, "a", "b")
    other = bed.ask(lambda asked: bed.shard.read(asked, "a"))
    assert bed.answers[other] == ("sum", 1)
    share(bed, "a")
    bed.ask(lambda asked: bed.shard.add(asked, "b", 5), shares_batch=True)
    assert (bed.shard.sums, len(bed.log.written)) == ({"a": 2, "b": 6}, 3)
    share(bed, "t")
    bed.markers_written("t", 0)
    assert bed.shard.offsets == list(range(6))


def test_a_shared_batch_is_safe_for_all_at_once() -> None:
    bed = bed_of()
    bed.log.lag()
    tokens = share(bed, "a", "b")
    bed.runtime.settle(bed.moment)
    bed.log.replicated = 1
    bed.runtime.advanced(bed.moment)
    assert bed.answers == {}
    bed.replicate()
    assert list(bed.answers) == tokens


def test_a_shared_batch_that_is_refused_is_refused_for_all() -> None:
    bed = bed_of()
    bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    tokens = share(bed, "a", "b")
    bed.runtime.settle(bed.moment)
    assert bed.answers == dict.fromkeys(tokens, Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert bed.shard.sums == {}


def test_a_shared_batch_that_is_too_large_is_written_one_by_one() -> None:
    bed = bed_of()
    bed.log.max_records = 1
    first, last = share(bed, "a", "b")
    bed.runtime.settle(bed.moment)
    assert (len(bed.log.written), bed.answers) == (2, {first: ("shared", "a"), last: ("shared", "b")})


def test_a_shared_batch_has_an_end() -> None:
    bed = bed_of()
    share(bed, *("a" for _ in range(SHARED_RECORDS - 1)))
    assert not bed.log.written
    share(bed, "a")
    assert len(bed.log.written) == 1


def test_what_waits_for_a_shared_batch_is_refused_when_the_shard_goes() -> None:
    bed = bed_of()
    (token,) = share(bed, "a")
    bed.resign()
    assert bed.answers == {token: Refused(ErrorCode.NOT_COORDINATOR)}
    assert not bed.log.written


# Loading.


def test_a_restart_replays_what_was_there() -> None:
    bed = bed_of(Codec.LZ4)
    for amount in range(200):
        bed.perform(Outcome(records=[Added(name=f"n{amount % 7}", amount=amount)]))
    sums, offsets = bed.shard.sums, bed.shard.offsets
    bed.crash()
    assert bed.shard.is_loaded
    assert (bed.shard.sums, bed.shard.offsets) == (sums, offsets)


def test_loading_goes_in_steps() -> None:
    bed = bed_of()
    bed.perform(Outcome(records=[Added(name="a", amount=1) for _ in range(1_000)]))
    runtime = bed.runtime
    bed.crash()
    assert bed.runtime.replayed == 1_000
    steps = 0
    fresh = type(runtime)(TallyShard(), bed.log, TallyCodec(), bed.wheel, bed)
    while not fresh.load_step(bed.moment):
        steps += 1
    assert steps >= 1_000 // 50


def half_loaded(bed: SafeBed) -> Runtime[Added]:
    """A runtime of a new shard that has read the log, and has more to do before it takes requests."""
    runtime: Runtime[Added] = Runtime(TallyShard(), bed.log, TallyCodec(), bed.wheel, bed)
    while not runtime.load_step(bed.moment):
        if runtime.replayed == bed.log.log_end_offset and runtime.deadline_of("+early") is not None:
            return runtime
    raise AssertionError("it was done in one step")


def test_a_marker_that_comes_between_the_last_steps_of_loading_is_not_lost() -> None:
    bed = bed_of()
    bed.perform(Outcome(records=[Added(name="timer", amount=1)]))
    bed.perform(Outcome(records=[Added(name="a", amount=5)], producer=Producer(7, 0)))
    runtime = half_loaded(bed)
    offset = bed.log.end_transaction(7, 0, is_commit=True)
    runtime.transaction_ended(7, True, offset)
    assert runtime.state is State.LOADING
    assert runtime.load_step(bed.moment)
    assert isinstance(runtime.shard, TallyShard) and runtime.shard.sums["a"] == 5


def test_a_timer_that_is_due_between_the_last_steps_of_loading_waits_for_the_end() -> None:
    bed = bed_of()
    bed.perform(Outcome(records=[Added(name="timer", amount=1)]))
    runtime = half_loaded(bed)
    bed.advance(10_000)
    shard = runtime.shard
    assert isinstance(shard, TallyShard) and not shard.is_loaded and "early" not in shard.sums
    assert runtime.load_step(bed.moment) and runtime.state is State.ACTIVE
    bed.advance(RETRY_MS)
    assert shard.sums["early"] == 1


def test_records_of_unknown_types_and_without_key_are_passed_over() -> None:
    bed = bed_of()
    rows = [NewRecord(0, b"?new", b"x"), NewRecord(0, None, b"x"), NewRecord(0, b"a", b"5")]
    bed.log.append(bytearray(build_batch(rows)), bed.moment)
    bed.crash()
    assert bed.shard.sums == {"a": 5}
    assert bed.shard.offsets == [2]


def test_a_null_value_takes_away() -> None:
    bed = bed_of()
    bed.perform(Outcome(records=[Added(name="a", amount=5)]))
    bed.perform(Outcome(records=[Added(name="a", amount=None)]))
    bed.crash()
    assert bed.shard.sums == {}


@pytest.mark.parametrize("is_commit", [True, False])
def test_transactions_count_from_their_marker(is_commit: bool) -> None:
    bed = bed_of()
    producer = Producer(9, 2)
    bed.ask(lambda asked: bed.shard.add(asked, "a", 5, producer))
    header = read_header(bed.log.written[0])
    assert (header.producer_id, header.producer_epoch, header.is_transactional) == (9, 2, True)
    assert bed.shard.sums == {}
    bed.write_marker(9, 2, is_commit=is_commit)
    live = bed.shard.sums
    assert live == ({"a": 5} if is_commit else {})
    bed.crash()
    assert (bed.shard.sums, bed.shard.undecided) == (live, {})


def test_an_open_transaction_is_still_open_after_a_restart() -> None:
    bed = bed_of()
    bed.ask(lambda asked: bed.shard.add(asked, "a", 5, Producer(9, 2)))
    bed.crash()
    assert bed.shard.sums == {}
    bed.write_marker(9, 2, is_commit=True)
    assert bed.shard.sums == {"a": 5}


def test_written_markers_come_back_to_the_shard() -> None:
    bed = bed_of()
    bed.ask(lambda asked: bed.shard.decide(asked, "t"))
    bed.markers_written("t", 0)
    assert bed.shard.sums == {"t": 1}


# Thousands of lives.

ACTIONS = ("add", "share", "share", "share", "transactional", "read", "after", "wait", "release", "decide", "end")
LATER = ("lag", "catch up", "refuse", "allow", "tick", "crash", "resign", "settle", "narrow")


def play(seed: int, length: int = 60) -> None:
    """Random requests and faults. `Bed` fails on a second answer; at the end nobody may be without one."""
    random = Random(seed)
    bed = bed_of()
    for _ in range(length):
        name, amount = random.choice("abc"), random.randrange(1, 9)
        action = random.choice(ACTIONS + LATER)
        act(bed, action, name, amount)
        assert len(bed.wheel) >= len(bed.shard.waiting)
    bed.log.refusal = None
    bed.log.is_lagging = False
    bed.runtime.settle(bed.moment)
    bed.runtime.advanced(bed.moment)
    bed.advance(WAIT_MS + 5_000)
    assert bed.unanswered() == [], f"seed {seed}"
    live = (bed.shard.sums, bed.shard.undecided, bed.shard.offsets)
    bed.crash()
    assert (bed.shard.sums, bed.shard.undecided, bed.shard.offsets) == live, f"seed {seed}"


def act(bed: Bed[Added], action: str, name: str, amount: int) -> None:
    shard = bed.shard
    match action:
        case "add":
            bed.ask(lambda asked: shard.add(asked, name, amount))
        case "share":
            bed.ask(lambda asked: shard.share(asked, f"{name}{asked.token}", amount), shares_batch=True)
        case "transactional":
            bed.ask(lambda asked: shard.add(asked, name, amount, Producer(amount, 0)))
        case "read":
            bed.ask(lambda asked: shard.read(asked, name))
        case "after":
            bed.ask(lambda asked: shard.add_and_then_read(asked, name, amount))
        case "wait":
            bed.ask(lambda asked: shard.wait(asked, name, bed.moment))
        case "release":
            bed.ask(lambda asked: shard.release(asked, name))
        case "decide":
            bed.ask(lambda asked: shard.decide(asked, name))
        case "end":
            bed.write_marker(amount, 0, is_commit=amount % 2 == 0)
        case _:
            disturb(bed, action, amount)


def disturb(bed: Bed[Added], action: str, amount: int) -> None:
    match action:
        case "lag":
            bed.log.lag()
        case "catch up":
            bed.replicate()
        case "refuse":
            bed.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
        case "allow":
            bed.log.refusal = None
        case "settle":
            bed.runtime.settle(bed.moment)
        case "narrow":
            bed.log.max_records = None if bed.log.max_records else 2
        case "tick":
            bed.advance(amount * 200)
        case "crash":
            bed.crash()
        case "resign":
            bed.resign()
            assert bed.unanswered() == []
            bed.start()


@pytest.mark.parametrize("seeds", seeds_of_tests("coordinator_lives", at_once=100))
def test_every_request_is_answered_once_whatever_happens(seeds: range) -> None:
    for seed in seeds:
        try:
            play(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
