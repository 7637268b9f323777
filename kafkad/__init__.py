"""kafkad, a Kafka-protocol broker daemon: the map of the system.

The core decides. The wire translates. Handlers connect. Processes act. Plugins choose.

core/       the rules, pure: log, cleaning, replication, controller, hosting, coordinator, groups, transactions,
            waiting, sessions, quotas
wire/       bytes to messages and back: framing, headers, the API table, hot responses
handlers/   one module per API: request to reply, or to something that waits
adapters/   one outside thing each: files, shared memory, ZeroMQ links, coordination stores
export/     topics into tables, by way of the files or of a client; no part of the broker
client/     a synchronous Kafka client for our own commands; no part of the broker
processes/  the shells: supervisor, network, worker, controller, cleaner, reporter; in a cluster the fetcher, too
plugins/    the defaults of every choice, loaded like anyone else's (hooks: hookspecs.py, what authors import: api.py)
config/     server.properties to frozen settings
cli/        the command line

All of it is plain Python; most of it can be compiled too (`make native`), and native.py says which of the two runs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from kafkad import native

if TYPE_CHECKING:
    from kafkad.hookspecs import hookimpl as hookimpl

native.choose()

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`kafkad.hookimpl`, named as in pytest, tox and datasette; imported only when it is used."""
    if name == "hookimpl":
        return import_module("kafkad.hookspecs").hookimpl
    raise AttributeError(f"module 'kafkad' has no attribute {name!r}")
