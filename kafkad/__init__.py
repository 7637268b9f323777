"""kafkad, a Kafka-protocol broker daemon: the map of the system.

The core decides. The wire translates. Handlers connect. Processes act. Plugins choose.

core/       the rules, pure: log, cleaning, replication, controller, hosting, coordinator, groups, transactions,
            waiting, sessions, quotas
wire/       bytes to messages and back: framing, headers, the API table, frequent responses
handlers/   one module per API: request to response, or to a pending operation
adapters/   access to one external resource each: files, shared memory, ZeroMQ links, coordination stores
client/     a synchronous Kafka client for kafkad's commands; not part of the broker
processes/  the shells: supervisor, network, worker, controller, cleaner, reporter; in a cluster also the fetcher
plugins/    the built-in plugins, loaded like all others (hooks: hookspecs.py, imports of plugins: api.py)
config/     server.properties to frozen settings
cli/        the command line

Topics as tables (`kafkad export`) are a package beside this one, in spark/; nothing here imports it.

All code is plain Python; most of it can be compiled (`make native`). native.py selects compiled or interpreted code.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from kafkad import native

if TYPE_CHECKING:
    from kafkad.hookspecs import hookimpl as hookimpl

native.choose()

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`kafkad.hookimpl`, imported on first use; the name is the same as in pytest, tox and datasette."""
    if name == "hookimpl":
        return import_module("kafkad.hookspecs").hookimpl
    raise AttributeError(f"module 'kafkad' has no attribute {name!r}")
