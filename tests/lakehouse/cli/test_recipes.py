"""What docs/export.md says to copy: commands that are understood, and files that their programs can read."""

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
import yaml  # type: ignore[import-untyped]

from kafkad_lakehouse.cli.export import export
from kafkad_lakehouse.cli.options import read_options

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "export.md").read_text()


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return [block for its, block in found if its == language]


def airflow() -> ast.Module:
    (code,) = [block for block in blocks("python") if "airflow" in block]
    return ast.parse(code)


def cron_job() -> dict[str, object]:
    (block,) = blocks("yaml")
    found = yaml.safe_load(block)
    assert isinstance(found, dict)
    return found


def in_cron_job() -> list[str]:
    (container,) = cron_job()["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]  # type: ignore[index]
    return [*container["command"], *container["args"]]


def in_airflow() -> list[str]:
    (command,) = [
        each.value.value
        for node in ast.walk(airflow())
        if isinstance(node, ast.Call)
        for each in node.keywords
        if each.arg == "bash_command" and isinstance(each.value, ast.Constant)
    ]
    return shlex.split(str(command))


def in_shell() -> Iterator[list[str]]:
    for block in [*blocks("sh"), *blocks("")]:
        for line in block.splitlines():
            found = re.search(r"kafkad export .*", line)
            if found is not None:
                yield shlex.split(found[0], comments=True)


def understood(words: Sequence[str], conf_file: Path) -> click.Context:
    """As `kafkad` reads them, with our own file in the place of theirs."""
    assert words[:2] == ["kafkad", "export"], words
    own = [str(conf_file) if word.endswith(".toml") else word for word in words[3:]]
    return export.commands[words[2]].make_context(words[2], own)


@pytest.fixture
def conf_file(tmp_path: Path) -> Path:
    file = tmp_path / "orders.toml"
    file.write_text('topic = "orders"\nout = "/lake/orders"\n')
    return file


def test_every_command_in_a_block_is_understood(conf_file: Path) -> None:
    commands = list(in_shell())
    assert len(commands) >= 3
    for words in commands:
        understood(words, conf_file)


def test_the_task_of_airflow_is_python_with_a_command_that_is_understood(conf_file: Path) -> None:
    context = understood(in_airflow(), conf_file)
    assert (context.params["topic"], context.params["as_json"]) == ("orders", True)


def test_the_cron_job_of_kubernetes_is_one_with_a_command_that_is_understood(conf_file: Path) -> None:
    job = cron_job()
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    context = understood(in_cron_job(), conf_file)
    assert (context.params["out"], context.params["bootstrap"]) == ("s3://lake/orders", "kafka:9092")


def test_files_of_options_have_options(tmp_path: Path) -> None:
    found = blocks("toml")
    assert found
    for number, block in enumerate(found):
        file = tmp_path / f"{number}.toml"
        file.write_text(block)
        context = click.Context(export.commands["run"], parent=click.Context(export))
        # Each of them, by its parameter.
        content = tomllib.loads(block)
        for table, found_of_table in zip(content.pop("tables", [{}]), read_options(context, file), strict=True):
            assert len(found_of_table) == len({**content, **table})
