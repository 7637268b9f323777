"""Generates the manual pages from the commands and options: kafkad(1), one page for each command, and
kafkad.properties(5) from the table of options.

`python3 manual.py FOLDER`; dates and versions come from the changelog of the package, so that two builds are equal.
"""

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from kafkad import __version__
from kafkad.cli import main
from kafkad.config.document import sample_file

FILES = (
    ("/etc/kafkad/server.properties", "The configuration of kafkad.service."),
    ("/etc/kafkad/NAME.properties", "The configuration of kafkad@NAME.service, a further broker on this host."),
    ("/var/lib/kafkad, /var/lib/kafkad@NAME", "Topics and records."),
    ("/run/kafkad, /run/kafkad@NAME", "Sockets between the processes of a broker."),
    ("/usr/local/lib/kafkad/plugins", "Plugins installed by `kafkad plugins install`."),
)
UNITS = (
    "kafkad.service is a broker, kafkad@NAME.service another one. `systemctl status` shows the state of the broker. "
    "`systemctl reload` checks and reloads the configuration. During a restart clients wait, and no connection is "
    "refused. The log is in the journal."
)


def escaped(text: str) -> str:
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^\.", "\\\\&.", text, flags=re.MULTILINE)


def bold_first(name: str, text: str) -> Iterator[str]:
    yield ".TP"
    yield f"\\fB{escaped(name)}\\fR"
    yield escaped(text)


def commands(command: click.Command, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and its subcommands, each with its names on the command line."""
    yield names, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, name
            yield from commands(found, (*names, name))


def header(title: str, section: int) -> str:
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    return f'.TH "{title.upper()}" {section} "{date}" "kafkad {__version__}" "kafkad"'


def command_page(names: tuple[str, ...], command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=" ".join(names))
    summary = command.get_short_help_str(200).rstrip(".") or " ".join(names[1:])
    yield header("-".join(names), 1)
    yield ".SH NAME"
    yield f"{escaped('-'.join(names))} \\- {escaped(summary)}"
    yield ".SH SYNOPSIS"
    yield f"\\fB{escaped(' '.join(names))}\\fR {escaped(' '.join(command.collect_usage_pieces(context)))}"
    if len(names) > 1 and command.help:
        yield ".SH DESCRIPTION"
        for paragraph in command.help.split("\n\n"):
            yield ".PP"
            yield escaped(" ".join(line.strip() for line in paragraph.splitlines()))
    yield from options(command, context)
    if isinstance(command, click.Group):
        yield ".SH COMMANDS"
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None, name
            yield ".TP"
            yield f"\\fB{escaped('-'.join((*names, name)))}\\fR(1)"
            yield escaped(found.get_short_help_str(200))
    if command.epilog:
        yield ".SH EXAMPLE"
        yield ".nf"
        yield escaped("\n".join(line[2:] for line in command.epilog.splitlines() if line.startswith("  ")))
        yield ".fi"


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    yield ".SH OPTIONS"
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield from bold_first(record[0], record[1] or "")


def service_sections() -> Iterator[str]:
    yield ".SH SERVICES"
    yield escaped(UNITS)
    yield ".SH FILES"
    for path, text in FILES:
        yield from bold_first(path, text)
    yield ".SH EXIT STATUS"
    yield "0 success, 1 the broker returned an error or did not respond, 2 wrong usage or configuration, 130 Ctrl-C."
    yield ".SH SEE ALSO"
    yield "\\fBkafkad.properties\\fR(5), \\fBsystemctl\\fR(1), \\fBjournalctl\\fR(1)"


def properties_page() -> Iterator[str]:
    yield header("kafkad.properties", 5)
    yield ".SH NAME"
    yield "kafkad.properties \\- configuration of a kafkad broker"
    yield ".SH DESCRIPTION"
    yield escaped(
        "Lines `name=value`, as in Apache Kafka's server.properties. Each option below is shown with its default. "
        "An unknown name or an invalid value stops the start with exit code 2 and one line for each."
    )
    yield ".SH OPTIONS"
    text: list[str] = []
    for line in sample_file().splitlines()[2:]:
        if line.startswith("#####"):
            yield f".SS {escaped(line.strip('# '))}"
        elif line.startswith("# "):
            text.append(line[2:])
        elif line.startswith("#"):
            yield from bold_first(line[1:], " ".join(text))
            text = []
    yield ".SH SEE ALSO"
    yield "\\fBkafkad\\fR(1)"


def write(folder: Path) -> None:
    for names, command in commands(main, ("kafkad",)):
        lines = list(command_page(names, command))
        if len(names) == 1:
            lines += service_sections()
        (folder / f"{'-'.join(names)}.1").write_text("\n".join(lines) + "\n")
    (folder / "kafkad.properties.5").write_text("\n".join(properties_page()) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
