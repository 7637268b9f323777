"""Messages between the supervisor and its children, over one socket pair for each incarnation of a child.

SOCK_SEQPACKET preserves message boundaries, and the pair ends with the incarnation. Each message is a version byte and
one msgpack value; both ends are the same program, so another version is a bug.
"""

import socket
from typing import TypeAlias

import msgspec

VERSION = 1
MESSAGE_BYTES = 128 * 1024
_PER_READ = 64


class ProcessesChanged(msgspec.Struct, frozen=True, tag=True):
    """A process was started, got ready or died. The process registry has its state; data in this message could be
    older than the registry.
    """


class BrokerStateChanged(msgspec.Struct, frozen=True, tag=True):
    """The broker's state has changed (`kafkad.core.supervision.broker_state`)."""

    state: int


class Stop(msgspec.Struct, frozen=True, tag=True):
    """The child completes its work, sends `Stopped` and exits; at `deadline_ms` (monotonic) it is killed."""

    deadline_ms: int


class Reload(msgspec.Struct, frozen=True, tag=True):
    """The properties file was reloaded; `static` has the options that need no restart."""

    static: dict[str, str]


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The child is ready."""


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """The child is about to exit. `is_clean`: all its state is synced and checkpointed."""

    is_clean: bool = True


class LeadershipMoved(msgspec.Struct, frozen=True, tag=True):
    """The controlled shutdown is complete: other brokers lead the partitions, as far as possible."""


class Status(msgspec.Struct, frozen=True, tag=True):
    """One line about the child's progress, for the log."""

    text: str


class Fatal(msgspec.Struct, frozen=True, tag=True):
    """The next incarnation of the child would fail in the same way: the broker must stop. `text` is the reason."""

    text: str
    exit_code: int = 1


ToChild: TypeAlias = ProcessesChanged | BrokerStateChanged | Stop | Reload
ToSupervisor: TypeAlias = Ready | Stopped | Status | Fatal | LeadershipMoved
Message: TypeAlias = ToChild | ToSupervisor

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class ChannelClosed(Exception):
    """The other end is closed."""


class Channel:
    """One end of the socket pair. Sends and receives never wait."""

    __slots__ = ("_socket", "fd")

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * MESSAGE_BYTES)
        self._socket = end
        self.fd = end.fileno()

    def send(self, message: Message) -> None:
        """Raises `ChannelClosed`, also if the buffer is full because the other end hangs."""
        try:
            self._socket.send(bytes((VERSION,)) + _encoder.encode(message))
        except (BlockingIOError, BrokenPipeError, ConnectionResetError) as error:
            raise ChannelClosed(str(error)) from error

    def receive(self) -> list[Message]:
        """The received messages. Raises `ChannelClosed` after the last message."""
        messages: list[Message] = []
        while len(messages) < _PER_READ:
            try:
                packet = self._socket.recv(MESSAGE_BYTES)
            except BlockingIOError:
                break
            except ConnectionResetError as error:
                raise ChannelClosed(str(error)) from error
            if not packet:
                if messages:
                    break
                raise ChannelClosed("the other end is closed")
            assert packet[0] == VERSION, f"expected supervision messages of version {VERSION}, got {packet[0]}"
            messages.append(_decoder.decode(memoryview(packet)[1:]))
        return messages

    def close(self) -> None:
        self._socket.close()


def channel_pair() -> tuple[Channel, Channel]:
    """The supervisor's end and the child's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Channel(ours), Channel(theirs)
