"""The command line.

Each module in `commands` holds one command and is imported only when that command is used: `kafkad start` does not
import the client of `kafkad produce`. `kafkad export` is not here: it is an entry point in the group `kafkad.commands`,
of the package beside the broker. Exit codes: 0 success, 1 the broker returned an error or did not respond, 2 wrong
usage or configuration, 130 Ctrl-C.
"""

import click

from kafkad import __version__
from kafkad.cli.lazy_group import LazyCommand, LazyGroup
from kafkad.native import mode

main = LazyGroup(
    name="kafkad",
    help="A broker that speaks Apache Kafka's protocol.",
    own_commands={
        "start": LazyCommand("kafkad.cli.commands.start:start", "Run a broker in the foreground."),
        "stop": LazyCommand("kafkad.cli.commands.stop:stop", "Stop a broker of this host cleanly."),
        "dev": LazyCommand("kafkad.cli.commands.dev:dev", "Run a temporary broker on a free port."),
        "check-config": LazyCommand("kafkad.cli.commands.check_config:check_config", "Check a server.properties."),
        "dump-log": LazyCommand(
            "kafkad.cli.commands.dump_log:dump_log", "Show and check the files of a partition or log directory."
        ),
        "adopt": LazyCommand("kafkad.cli.commands.adopt:adopt", "Take over log directories of Apache Kafka."),
        "topics": LazyCommand("kafkad.cli.commands.topics:topics", "Create, list, describe and delete topics."),
        "groups": LazyCommand("kafkad.cli.commands.groups:groups", "List, describe, delete and reset consumer groups."),
        "transactions": LazyCommand(
            "kafkad.cli.commands.transactions:transactions", "List, describe and abort transactions."
        ),
        "brokers": LazyCommand(
            "kafkad.cli.commands.cluster.brokers:brokers", "Show, drain and end sessions of brokers."
        ),
        "reassign": LazyCommand(
            "kafkad.cli.commands.cluster.reassign:reassign_group", "Move partitions to other brokers."
        ),
        "elect-leaders": LazyCommand(
            "kafkad.cli.commands.cluster.elect_leaders:elect_leaders", "Elect preferred replicas as leaders."
        ),
        "log-dirs": LazyCommand(
            "kafkad.cli.commands.log_dirs:log_dirs", "Show log directories, and move partitions between them."
        ),
        "cleaner": LazyCommand("kafkad.cli.commands.cleaner:cleaner", "Show and retry the compaction of logs."),
        "produce": LazyCommand("kafkad.cli.commands.produce:produce", "Send lines of standard input to a topic."),
        "consume": LazyCommand("kafkad.cli.commands.consume:consume", "Print the records of a topic."),
        "plugins": LazyCommand("kafkad.cli.commands.plugins:plugins", "Show, install and remove plugins."),
    },
    entry_points="kafkad.commands",
    entry_points_before="plugins",
    epilog="\b\nExample:\n  kafkad dev\n  echo hello | kafkad produce demo\n  kafkad consume demo --from-beginning",
)
click.version_option(__version__, prog_name="kafkad", message=f"%(prog)s, version %(version)s ({mode()})")(main)
