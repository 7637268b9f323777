"""kafkad, a Kafka-protocol broker daemon: the map of the system.

The core decides. The wire translates. Handlers connect. Processes act. Plugins choose.

core/       the rules, pure: log, waiting, sessions, quotas, controller, coordinator, groups, transactions
wire/       bytes to messages and back: framing, headers, the API table, hot responses
handlers/   one module per API: request to reply, or to something that waits
adapters/   one outside thing each: files, shared memory, ZeroMQ links, coordination stores
client/     a synchronous Kafka client for our own commands; no part of the broker
processes/  the shells: supervisor, network, worker, controller, cleaner, reporter
plugins/    the defaults of every choice, loaded like anyone else's (contracts: hookspecs.py)
config/     server.properties to frozen settings
cli/        the command line
"""

__version__ = "0.1.0"
