"""What README.md tells people to type exists: commands, options, make targets, files."""

import re
import shlex
from pathlib import Path

import click
import pytest

from kafkad.cli import main

CHECKOUT = Path(__file__).parents[2]
README = (CHECKOUT / "README.md").read_text()
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
COMMANDS = sorted(set(re.findall(r"(?:^|\| )kafkad ([^\n|#]+)", SHELL, re.MULTILINE)))


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_the_readme_parses(line: str) -> None:
    words = shlex.split(line)
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        found = command.get_command(context, words.pop(0))
        assert found is not None, line
        command, context = found, click.Context(found)
    command.make_parser(context).parse_args(words)


def test_readme_shows_commands() -> None:
    assert len(COMMANDS) >= 6


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (CHECKOUT / "Makefile").read_text()
    for target in set(re.findall(r"make ([a-z]+)", README)) - {"and"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", ["README.md", "CHANGES.md", "docs/README.md", "docs/decisions/README.md"])
def test_links_to_files_lead_somewhere(page: str) -> None:
    text = (CHECKOUT / page).read_text()
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert ((CHECKOUT / page).parent / target).exists(), target
