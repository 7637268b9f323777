"""What do the docs and the sample file say about each option?

Both are written from the table, so that they can't differ from what the broker does:
`python -m kafkad.config.document` writes docs/configuration.md and etc/server.properties below the current folder.
"""

import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from kafkad.config.dynamic import REREAD_ONLY
from kafkad.config.entities.log_defaults import BROKER_NAMES
from kafkad.config.table import DOMAINS, TOPIC_TABLE
from kafkad.core.settings.option import Setting, Support

DOCS = "docs/configuration.md"
SAMPLE = "etc/server.properties"

# Defaults that depend on the machine: the text in the docs, the value in the sample file.
_MACHINE_DEFAULTS = {
    "log.dir": (
        "$STATE_DIRECTORY; else /var/lib/kafkad for root, $XDG_DATA_HOME/kafkad or ~/.local/share/kafkad",
        "/var/lib/kafkad",
    ),
    "kafkad.plugins.dir": ("none; with the Debian package /usr/local/lib/kafkad/plugins", ""),
    "kafkad.runtime.dir": (
        "$RUNTIME_DIRECTORY; else /run/kafkad for root, $XDG_RUNTIME_DIR/kafkad or ~/.cache/kafkad",
        "/run/kafkad",
    ),
    "num.network.threads": ("3, at most half the cores", "3"),
    "num.io.threads": ("8, at most the other cores", "8"),
}

_PREFACE = """\
# Configuration

kafkad reads Apache Kafka's `server.properties`. This page is written from the code by
`python -m kafkad.config.document`; it has every option of Apache Kafka 3.9 and 4.3, and kafkad's own.

- **working**: it does what it does in Kafka.
- **no effect**: it is accepted, and one line at the start says why it changes nothing.
- **refused**: the broker does not start with it, because ignoring it would break a promise. A value that asks for
  nothing, such as the default, is accepted.

An unknown name or a wrong value stops the start with one line each and exit code 2. "Changes" says who may change an
option while the broker runs: nobody (read-only), per broker, or cluster-wide. Values are written as in Kafka: blanks
around them are dropped, lists are separated by commas.

Where the configuration comes from: the file named on the command line, else `/etc/kafkad/server.properties` if it is
there, else the defaults below. `--override name=value` wins over the file; changes by `kafka-configs` win over both.

Without `listeners` the broker binds 127.0.0.1:9092. Without `advertised.listeners` a client is told the listener's
host, or, if the listener is on every interface, the address that it connected to. Advertising 0.0.0.0 is refused. In a
cluster an empty host is advertised as this machine's name, as in Kafka, and a listener on 0.0.0.0 is refused without an
address in `advertised.listeners`; one that is left out there is not registered.

Data is never put under /tmp unless `log.dirs` says so.

The numbers of processes and the listeners are read-only here, where Kafka changes them while it runs: they are what
the broker started with, and a request that would change them is refused.

SIGHUP has the file read again. What "changes" calls per-broker or cluster-wide is then applied; so is what no request
may change, as in Kafka, but is only a value:
{reread}.
What needs a restart is named in the log.

Families of options: `kafkad.quota.client.<client-id>.producer_byte_rate` and `….consumer_byte_rate` limit one client
id; `kafkad.plugin.<anything>` is handed to the plugins as it is written; `listener.name.<listener>.<option>` is read,
but has no effect yet.
"""


def configuration_page() -> str:
    """The text of docs/configuration.md."""
    return "\n".join(_page_lines()) + "\n"


def sample_file() -> str:
    """The text of etc/server.properties: every working option, commented out, with its default."""
    return "\n".join(_sample_lines()) + "\n"


def _page_lines() -> Iterator[str]:
    yield _PREFACE.format(reread=_wrapped(REREAD_ONLY))
    for title, settings in DOMAINS.items():
        yield f"## {title}\n"
        yield "| option | type | default | allowed | status | changes | what it is |"
        yield "|---|---|---|---|---|---|---|"
        yield from map(_table_row, settings)
        yield ""
    yield "## Options of a topic\n"
    yield "A topic inherits each of them from the broker option beside it.\n"
    yield "| option | type | default | allowed | status | broker option | what it is |"
    yield "|---|---|---|---|---|---|---|"
    for setting in TOPIC_TABLE.values():
        yield _topic_row(setting)


def _wrapped(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{name}`" for name in sorted(names)), 118, break_on_hyphens=False)


def _table_row(setting: Setting) -> str:
    cells = (*_facts(setting), setting.update_mode.value, setting.documentation)
    return _joined(cells)


def _topic_row(setting: Setting) -> str:
    behind = BROKER_NAMES.get(setting.name)
    return _joined((*_facts(setting), f"`{behind}`" if behind else "", setting.documentation))


def _facts(setting: Setting) -> tuple[str, ...]:
    allowed = str(setting.validator) if setting.validator is not None else ""
    return f"`{setting.name}`", setting.type.name.lower(), _default(setting), allowed, _status(setting)


def _joined(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(setting: Setting) -> str:
    if setting.name in _MACHINE_DEFAULTS:
        return _MACHINE_DEFAULTS[setting.name][0]
    text = setting.default_text
    if text is None:
        return "unset"
    return f"`{text}`" if text else "empty"


def _status(setting: Setting) -> str:
    status = setting.status
    if status.support is Support.WORKING:
        return "working"
    return f"{status.support.value}: {status.reason}"


def _sample_lines() -> Iterator[str]:
    yield "# server.properties of kafkad: every option that works, with its default, commented out."
    yield "# Written by `python -m kafkad.config.document`; docs/configuration.md says more."
    for title, settings in DOMAINS.items():
        working = [setting for setting in settings if setting.status.support is Support.WORKING]
        if working:
            yield f"\n\n##### {title} #####"
        for setting in working:
            yield from _sample_entry(setting)


def _sample_entry(setting: Setting) -> Iterator[str]:
    yield f"\n# {setting.documentation}"
    if setting.name in _MACHINE_DEFAULTS:
        described, text = _MACHINE_DEFAULTS[setting.name]
        yield f"# Default: {described}."
    else:
        text = setting.default_text or ""
    yield f"#{setting.name}={text}"


def main() -> None:
    for name, text in ((DOCS, configuration_page()), (SAMPLE, sample_file())):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}: {len(text.splitlines())} lines\n")


if __name__ == "__main__":
    main()
