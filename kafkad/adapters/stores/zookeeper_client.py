"""Extensions of kazoo's client: an abortable start, a stop with a timeout, and multi-reads."""

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
    """Connect. Raises KazooTimeoutError, also if the broker stops meanwhile."""
    until_s = time.monotonic() + timeout_s
    is_live = client.start_async()
    while not is_live.wait(max(0.0, min(_CHECK_INTERVAL_S, until_s - time.monotonic()))):
        if time.monotonic() >= until_s or is_stopping():
            raise KazooTimeoutError("Connection time-out")


def stop(client: KazooClient) -> bool:
    """End the session; False if kazoo's thread does not stop in time, and the session continues. The thread may be
    resolving the names of the servers.
    """
    is_stopped = threading.Event()

    def end() -> None:
        with suppress(WriterNotClosedException):
            client.stop()
            client.close()
            is_stopped.set()

    threading.Thread(target=end, name="end of a session", daemon=True).start()
    return is_stopped.wait(_STOPPED_S)


def make_root(client: KazooClient, acl: Callable[[str], list[ACL]], timeout_s: float) -> None:
    """Create the chroot path of the hosts with its parents; kazoo creates the last part only. Raises kazoo's errors."""
    root = client.chroot
    if root:
        client.chroot = ""
        value_of(client.ensure_path_async(root, acl(root)), timeout_s)
        client.chroot = root


def multi_read(client: KazooClient, paths: Sequence[str]) -> Any:
    """Start a multi-read, which kazoo does not support; returns an AsyncResult as kazoo's methods do."""
    result = client.handler.async_result()
    root = client.chroot
    client._call(MultiRead([root + path if path != "/" else root or "/" for path in paths]), result)
    return result


def supports_multi_reads(client: KazooClient, timeout_s: float) -> bool:
    """Whether the server supports multi-reads (3.6 and later); others close the connection. Raises kazoo's errors."""
    try:
        value_of(multi_read(client, ["/"]), timeout_s)
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
