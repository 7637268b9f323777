"""The same commands on both brokers, and what they print made comparable.

What differs by nature is replaced: ports, topic ids, folders, times and Java stack traces. Nothing else is.
"""

import re
from dataclasses import dataclass

from bench.brokers.broker import RunningBroker
from tests.tools.tool_server import ToolServer

_BY_NATURE = (
    (re.compile(r"TopicId: [\w-]{22}"), "TopicId: ID"),
    (re.compile(r"^\[\d{4}-\d\d-\d\d [\d:,]+\]", re.MULTILINE), "[TIME]"),
    (re.compile(r"adminclient-\d+"), "adminclient-N"),
    # Cordoned log directories (KIP-1066) are not in kafkad: nothing to blame them for.
    (re.compile(r" or some brokers have all their log directories cordoned"), ""),
    (re.compile(r"^\tat .*\n", re.MULTILINE), ""),
)


@dataclass(frozen=True, slots=True)
class Printed:
    """Exit code and normalised output of one command."""

    code: int
    out: str
    err: str


class Tools:
    """Kafka's tools against either broker."""

    def __init__(self, server: ToolServer, ours: RunningBroker, theirs: RunningBroker) -> None:
        self._server = server
        self.brokers = (ours, theirs)

    def on(self, broker: RunningBroker, name: str, *args: str) -> Printed:
        """One tool against one broker."""
        done = self._server.run(name, "--bootstrap-server", broker.bootstrap, *args)
        return Printed(done.returncode, _comparable(broker, done.stdout), _comparable(broker, done.stderr))

    def both(self, name: str, *args: str) -> tuple[Printed, Printed]:
        """The same command on ours and on Apache Kafka."""
        ours, theirs = (self.on(broker, name, *args) for broker in self.brokers)
        return ours, theirs

    def agree(self, name: str, *args: str, code: int = 0) -> str:
        """Both print the same and exit with `code`; returns what they printed."""
        ours, theirs = self.both(name, *args)
        assert ours == theirs
        assert ours.code == code, ours
        return ours.out

    def create(self, topic: str, *args: str) -> str:
        """A topic of this name on both brokers."""
        self.agree("kafka-topics", "--create", "--topic", topic, *args)
        return topic


def _comparable(broker: RunningBroker, output: bytes) -> str:
    text = output.decode().replace(str(broker.log_dir), "LOGDIR").replace(broker.bootstrap, "BOOTSTRAP")
    for pattern, replacement in _BY_NATURE:
        text = pattern.sub(replacement, text)
    return text
