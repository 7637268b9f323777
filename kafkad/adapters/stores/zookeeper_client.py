"""What kazoo's client does not do by itself: a start that can be broken off, a stop that ends, and multi-reads."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, UnimplementedError, WriterNotClosedException
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import ACL

from kafkad.adapters.stores.zookeeper_reads import MultiRead
from kafkad.adapters.stores.zookeeper_responses import value_of
from kafkad.adapters.stores.zookeeper_waits import SILENT_S

_CHECK_INTERVAL_S = 0.05
_STOPPED_S = 2 * SILENT_S


def start(client: KazooClient, timeout_s: float, is_stopping: Callable[[], bool]) -> None:
    """Raises KazooTimeoutError, also when the broker stops meanwhile."""
    until_s = time.monotonic() + timeout_s
    is_live = client.start_async()
    while not is_live.wait(max(0.0, min(_CHECK_INTERVAL_S, until_s - time.monotonic()))):
        if time.monotonic() >= until_s or is_stopping():
            raise KazooTimeoutError("Connection time-out")


def stop(client: KazooClient) -> bool:
    """End the session. False: it goes on, as kazoo's thread does, which may be resolving the names of the servers."""
    is_stopped = threading.Event()

    def end() -> None:
        with suppress(WriterNotClosedException):
            client.stop()
            client.close()
            is_stopped.set()

    threading.Thread(target=end, name="end of a session", daemon=True).start()
    return is_stopped.wait(_STOPPED_S)


def make_root(client: KazooClient, acl: Callable[[str], list[ACL]], timeout_s: float) -> None:
    """The path at the end of the hosts, parents and all: kazoo makes the last part only. Raises kazoo's errors."""
    root = client.chroot
    if root:
        client.chroot = ""
        value_of(client.ensure_path_async(root, acl(root)), timeout_s)
        client.chroot = root


def read_together(client: KazooClient, paths: Sequence[str]) -> Any:
    """The answer to come, as of a method of kazoo's own, which has none for it."""
    answer = client.handler.async_result()
    root = client.chroot
    client._call(MultiRead([root + path if path != "/" else root or "/" for path in paths]), answer)
    return answer


def knows_multi_reads(client: KazooClient, timeout_s: float) -> bool:
    """A server before 3.6 does not: it closes the connection, and the session gets another. Raises kazoo's errors."""
    try:
        value_of(read_together(client, ["/"]), timeout_s)
    except UnimplementedError:
        until_s = time.monotonic() + timeout_s
        while True:
            try:
                value_of(client.exists_async("/"), timeout_s)
                return False
            except ConnectionLoss:
                if time.monotonic() >= until_s:
                    raise
    return True
