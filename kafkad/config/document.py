"""Generate the docs and the sample file from the table of options, so that they can't differ from the broker.

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

kafkad reads Apache Kafka's `server.properties`. `python -m kafkad.config.document` generates this page from the code.
It has every option of Apache Kafka 3.9 and 4.3, and kafkad's own.

- Options with a description work as in Kafka.
- [Options without effect](#options-without-effect) are accepted; one line at the start has the reason.
- [Rejected options](#rejected-options) stop the start, because a broker without them would break a guarantee. The
  default, or another value without effect, is accepted.

An unknown name or an invalid value stops the start with exit code 2 and one line for each. "Changes" is the scope of
dynamic changes: none (read-only), per-broker, or cluster-wide. Values have Kafka's syntax: surrounding blanks are
dropped, lists are separated by commas.

The configuration is read from the file on the command line, else from `/etc/kafkad/server.properties` if it exists,
else the defaults below apply. `--override name=value` takes precedence over the file, and changes by `kafka-configs`
over both.

Without `listeners` the broker listens on 127.0.0.1:9092. Without `advertised.listeners` it advertises the listener's
host, or, for a listener on every interface, the address that the client connected to. 0.0.0.0 is never advertised. In a
cluster, as in Kafka, an empty host is advertised as the machine's name, and a listener on 0.0.0.0 needs an address in
`advertised.listeners`. A listener without an address there is not registered.

Without `log.dirs` no data is stored under /tmp.

The numbers of processes and the listeners are read-only, while Kafka can change them dynamically. Requests to change
them are rejected.

SIGHUP reloads the file and applies changes of per-broker and cluster-wide options, and of the following options, which
requests can't change, as in Kafka:
{reread}.
The log has the options that require a restart.

Families of options: `kafkad.quota.client.<client-id>.producer_byte_rate` and `….consumer_byte_rate` limit one client
id; `kafkad.plugin.<anything>` is passed to the plugins unchanged; `listener.name.<listener>.<option>` is accepted and
has no effect yet.
"""


def configuration_page() -> str:
    """The text of docs/configuration.md."""
    return "\n".join(_page_lines()) + "\n"


def sample_file() -> str:
    """The text of etc/server.properties: every supported option, commented out, with its default."""
    return "\n".join(_sample_lines()) + "\n"


def _page_lines() -> Iterator[str]:
    yield _PREFACE.format(reread=_wrapped(REREAD_ONLY))
    for title, settings in DOMAINS.items():
        working = _supported(settings, Support.WORKING)
        if working:
            yield f"## {title}\n"
            yield "| option | type | default | allowed | changes | description |"
            yield "|---|---|---|---|---|---|"
            yield from map(_table_row, working)
            yield ""
    yield "## Options of a topic\n"
    yield "The default of each topic option is the broker option in the same row.\n"
    yield "| option | type | default | allowed | broker option | description |"
    yield "|---|---|---|---|---|---|"
    yield from map(_topic_row, _supported(TOPIC_TABLE.values(), Support.WORKING))
    yield ""
    every = [setting for settings in DOMAINS.values() for setting in settings]
    for support, title in (
        (Support.NO_EFFECT, "Options without effect"),
        (Support.REFUSED, "Rejected options"),
    ):
        yield f"## {title}\n"
        yield "| reason | options |"
        yield "|---|---|"
        yield from _by_reason(_supported(every, support), "")
        yield from _by_reason(_supported(TOPIC_TABLE.values(), support), "topics: ")
        yield ""


def _supported(settings: Iterable[Setting], support: Support) -> list[Setting]:
    return [setting for setting in settings if setting.status.support is support]


def _by_reason(settings: Iterable[Setting], prefix: str) -> Iterator[str]:
    """One row for each reason, in the order of the options."""
    names: dict[str, list[str]] = {}
    for setting in settings:
        names.setdefault(setting.status.reason, []).append(f"`{setting.name}`")
    for reason, options in names.items():
        yield _joined((prefix + reason, ", ".join(options)))


def _wrapped(names: Iterable[str]) -> str:
    return textwrap.fill(", ".join(f"`{name}`" for name in sorted(names)), 118, break_on_hyphens=False)


def _table_row(setting: Setting) -> str:
    cells = (*_facts(setting), setting.update_mode.value, setting.documentation)
    return _joined(cells)


def _topic_row(setting: Setting) -> str:
    broker_name = BROKER_NAMES.get(setting.name)
    return _joined((*_facts(setting), f"`{broker_name}`" if broker_name else "", setting.documentation))


def _facts(setting: Setting) -> tuple[str, ...]:
    allowed = str(setting.validator) if setting.validator is not None else ""
    return f"`{setting.name}`", setting.type.name.lower(), _default(setting), allowed


def _joined(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _default(setting: Setting) -> str:
    if setting.name in _MACHINE_DEFAULTS:
        return _MACHINE_DEFAULTS[setting.name][0]
    text = setting.default_text
    if text is None:
        return "unset"
    return f"`{text}`" if text else "empty"


def _sample_lines() -> Iterator[str]:
    yield "# server.properties of kafkad: every supported option, with its default, commented out."
    yield "# Written by `python -m kafkad.config.document`; docs/configuration.md has more details."
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
