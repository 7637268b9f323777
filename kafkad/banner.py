"""The banner of a ready broker: its addresses, its data directories, and commands to try.

`kafkad.startup` prints it.
"""

import os
import shutil
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec

from kafkad import __version__
from kafkad.config import BrokerConfig, Endpoint, Listener
from kafkad.native import mode

LOOPBACK = "127.0.0.1"
_EVERY_INTERFACE = frozenset({"", "0.0.0.0", "::"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A ready broker; `endpoints` are the addresses of its listeners, in the order of the configuration."""

    config: BrokerConfig
    endpoints: tuple[Endpoint, ...]
    ready_s: float

    @property
    def bootstrap(self) -> str:
        """The address of the first listener for clients on this machine."""
        first = self.endpoints[0]
        host = LOOPBACK if first.host in _EVERY_INTERFACE else first.host
        return str(Endpoint(host=host, port=first.port))


def advertised_text(listener: Listener, port: int) -> str:
    """The text about the listener's advertised address; `port` is the bound port."""
    if listener.advertised is None:
        return "to each client the address that it connected to"
    return str(replace(listener.advertised, port=listener.advertised.port or port))


def exposed(config: BrokerConfig) -> list[str]:
    """A warning for each listener that other machines can reach, because there is no authentication."""
    return [
        f"no authentication on {listener.endpoint} ({listener.name}): any client that can connect may read, write and "
        "delete everything"
        for listener in config.network.listeners
        if not _is_loopback(listener.host)
    ]


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host == "::1" or host.startswith("127.")


def banner(ready: Ready, *, is_for_terminal: bool = True) -> str:
    """The banner; without `is_for_terminal` it has no commands to try."""
    config = ready.config
    name = f"kafkad {__version__} ({mode()}): broker {config.node_id}"
    lines = [f"{name} is ready after {ready.ready_s:.2f} s{', Ctrl-C stops it' if is_for_terminal else ''}"]
    for listener, endpoint in zip(config.network.listeners, ready.endpoints, strict=True):
        lines.append(f"  listens on  {endpoint} ({listener.name})")
        lines.append(f"  advertises  {advertised_text(listener, endpoint.port)}")
    lines.append(f"  data        {', '.join(os.path.abspath(each) for each in config.log_dirs.log_dirs)}")
    if not is_for_terminal:
        return "\n".join(lines)
    shell, python = _hints(ready.bootstrap)
    return "\n".join([*lines, f"  try         {shell}", f"              {python}"])


def _hints(bootstrap: str) -> tuple[str, str]:
    """A shell command and a Python command that produce and consume."""
    if shutil.which("kcat"):
        shell = f"echo hello | kcat -P -b {bootstrap} -t demo && kcat -C -b {bootstrap} -t demo -e"
    else:
        shell = (
            f"echo hello | kafkad produce demo --bootstrap-server {bootstrap}"
            f" && kafkad consume demo --from-beginning --exit-at-end --bootstrap-server {bootstrap}"
        )
    program = (
        "from confluent_kafka import Producer as P; "
        f"p = P({{'bootstrap.servers': '{bootstrap}'}}); p.produce('demo', 'from Python'); p.flush()"
    )
    install = "" if find_spec("confluent_kafka") else "pip install confluent-kafka && "
    return shell, f'{install}{_interpreter()} -c "{program}"'


def _interpreter() -> str:
    """The path of this broker's Python interpreter, relative to the current folder if it is below."""
    relative = os.path.relpath(sys.executable)
    return sys.executable if relative.startswith("..") else relative
