"""Waiting until the coordinators of a broker serve: the internal topics are made when they are first asked for."""

from bench import group_requests, transaction_requests
from bench.admin import StartTimeouts
from bench.connection import Connection
from bench.group_replies import check_commit, is_coordinator_found, read_producer
from bench.replies import Refused
from bench.transaction_requests import Producer


def wait_for_group(port: int, group: str, topic: str) -> None:
    """Return when the group's coordinator takes commits."""
    commit, patience = group_requests.offset_commit(group, topic, 0, 0), StartTimeouts()
    with Connection(port) as connection:
        _find(connection, group, group_requests.GROUP, patience)
        while True:
            try:
                check_commit(connection.ask(commit))
                return
            except Refused:
                patience.pause(f"the coordinator of {group} takes commits")


def make_producer(port: int, transactional_id: str) -> Producer:
    """A new transactional producer."""
    request, patience = transaction_requests.init_producer_id(transactional_id), StartTimeouts()
    with Connection(port) as connection:
        _find(connection, transactional_id, group_requests.TRANSACTION, patience)
        while True:
            try:
                producer_id, epoch = read_producer(connection.ask(request))
                return Producer(transactional_id=transactional_id, producer_id=producer_id, epoch=epoch)
            except Refused:
                patience.pause(f"the coordinator of {transactional_id} gives it a producer id")


def _find(connection: Connection, key: str, kind: int, patience: StartTimeouts) -> None:
    while not is_coordinator_found(connection.ask(group_requests.find_coordinator(key, kind))):
        patience.pause(f"a coordinator for {key}")
