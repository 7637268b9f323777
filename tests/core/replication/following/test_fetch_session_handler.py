"""Which partitions a follower names in its next request."""

from kafkad.core.errors import ErrorCode
from kafkad.core.replication.following.fetch_session_handler import MAX_ROWS, FetchSessionHandler
from kafkad.core.replication.following.requests import Fetched, PartitionToFetch
from kafkad.core.types import TopicPartition

ID = b"t" * 16


def row(partition: int, offset: int = 0) -> PartitionToFetch:
    return PartitionToFetch((ID, partition), TopicPartition("t", partition), 0, offset, -1, 0)


def established() -> FetchSessionHandler:
    session = FetchSessionHandler()
    session.next_request([row(0), row(1)], uses_topic_ids=True)
    assert session.handle_response(Fetched(0, 7, []), [(ID, 0), (ID, 1)])
    return session


def test_only_what_changed_is_named_again() -> None:
    request = established().next_request([row(0, 5), row(2)], uses_topic_ids=True)
    assert (request.session_id, request.session_epoch) == (7, 1)
    assert request.partitions == [row(0, 5), row(2)]
    assert request.forgotten == [row(1)]


def test_a_lost_session_ends_in_a_full_request_without_it() -> None:
    session = established()
    session.next_request([row(0)], uses_topic_ids=True)
    assert not session.handle_response(Fetched(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0, []), [])
    request = session.next_request([row(0)], uses_topic_ids=True)
    assert (request.session_id, request.session_epoch, request.partitions) == (0, 0, [row(0)])


def test_after_a_lost_answer_the_old_session_is_closed_by_the_next_full_request() -> None:
    session = established()
    session.next_request([row(0)], uses_topic_ids=True)
    session.failed()
    request = session.next_request([row(0)], uses_topic_ids=True)
    assert (request.session_id, request.session_epoch, request.partitions) == (7, 0, [row(0)])


def test_a_full_answer_that_leaves_partitions_out_is_not_used() -> None:
    session = FetchSessionHandler()
    session.next_request([row(0), row(1)], uses_topic_ids=True)
    assert not session.handle_response(Fetched(0, 7, []), [(ID, 0)])
    assert session.next_request([row(0)], uses_topic_ids=True).session_epoch == 0


def test_a_leader_without_sessions_gets_full_requests() -> None:
    session = FetchSessionHandler()
    session.next_request([row(0)], uses_topic_ids=True)
    assert session.handle_response(Fetched(0, 0, []), [(ID, 0)])
    request = session.next_request([row(0)], uses_topic_ids=True)
    assert (request.session_epoch, request.partitions) == (0, [row(0)])


def test_names_instead_of_ids_begin_another_session() -> None:
    request = established().next_request([row(0)], uses_topic_ids=False)
    assert (request.session_id, request.session_epoch, request.partitions) == (7, 0, [row(0)])


def test_more_partitions_than_one_request_may_name_come_into_the_session_one_request_after_the_other() -> None:
    session = FetchSessionHandler()
    wanted = [row(number) for number in range(2 * MAX_ROWS + 5)]
    named = []
    for epoch in range(3):
        request = session.next_request(wanted, uses_topic_ids=True)
        assert (request.session_epoch, request.forgotten) == (epoch, [])
        named.append(request.partitions)
        told = request.partitions if epoch == 0 else []
        assert session.handle_response(Fetched(0, 7, []), [each.id for each in told])
    assert named == [wanted[:MAX_ROWS], wanted[MAX_ROWS : 2 * MAX_ROWS], wanted[2 * MAX_ROWS :]]
    assert session.next_request(wanted, uses_topic_ids=True).partitions == []


def test_partitions_that_are_forgotten_count_too_and_the_rest_stays_known() -> None:
    session = FetchSessionHandler()
    first = [row(number) for number in range(MAX_ROWS)]
    session.next_request(first, uses_topic_ids=True)
    assert session.handle_response(Fetched(0, 7, []), [each.id for each in first])
    others = [row(number) for number in range(MAX_ROWS, MAX_ROWS + 10)]
    session.next_request([*first[5:], *others], uses_topic_ids=True)
    assert session.handle_response(Fetched(0, 7, []), [])
    request = session.next_request([row(0, 9)], uses_topic_ids=True)
    assert (len(request.forgotten), len(request.partitions)) == (MAX_ROWS, 0)
    assert session.requested_row((ID, 0)) is None
    assert session.requested_row((ID, MAX_ROWS + 9)) == others[-1]
    assert session.handle_response(Fetched(0, 7, []), [others[-1].id])
    request = session.next_request([row(0, 9)], uses_topic_ids=True)
    assert (request.forgotten, request.partitions) == (others[5:], [row(0, 9)])


def test_without_a_session_all_partitions_have_their_turn() -> None:
    session = FetchSessionHandler()
    wanted = [row(number) for number in range(2 * MAX_ROWS + 5)]
    named = []
    for _ in range(4):
        request = session.next_request(wanted, uses_topic_ids=True)
        named.append(list(request.partitions))
        assert session.handle_response(Fetched(0, 0, []), [each.id for each in request.partitions])
    assert all(len(each) == MAX_ROWS for each in named)
    assert {each.id for some in named[:3] for each in some} == {each.id for each in wanted}
    assert {each.id for some in named[1:] for each in some} == {each.id for each in wanted}
