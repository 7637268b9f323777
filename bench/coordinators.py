"""Wait for the coordinators of a broker: the first FindCoordinator creates the internal topics."""

from bench import group_requests, transaction_requests
from bench.admin import Backoff
from bench.connection import Connection
from bench.group_replies import check_commit, is_coordinator_found, read_producer
from bench.replies import ErrorReply
from bench.transaction_requests import Producer


def wait_for_group(port: int, group: str, topic: str) -> None:
    """Wait until the coordinator of the group accepts commits."""
    commit, backoff = group_requests.offset_commit(group, topic, 0, 0), Backoff()
    with Connection(port) as connection:
        _find(connection, group, group_requests.GROUP, backoff)
        while True:
            try:
                check_commit(connection.request(commit))
                return
            except ErrorReply:
                backoff.pause(f"the coordinator of {group} takes commits")


def make_producer(port: int, transactional_id: str) -> Producer:
    """A new transactional producer."""
    request, backoff = transaction_requests.init_producer_id(transactional_id), Backoff()
    with Connection(port) as connection:
        _find(connection, transactional_id, group_requests.TRANSACTION, backoff)
        while True:
            try:
                producer_id, epoch = read_producer(connection.request(request))
                return Producer(transactional_id=transactional_id, producer_id=producer_id, epoch=epoch)
            except ErrorReply:
                backoff.pause(f"the coordinator of {transactional_id} gives it a producer id")


def _find(connection: Connection, key: str, kind: int, backoff: Backoff) -> None:
    while not is_coordinator_found(connection.request(group_requests.find_coordinator(key, kind))):
        backoff.pause(f"a coordinator for {key}")
