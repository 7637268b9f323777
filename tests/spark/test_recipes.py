"""What docs/export.md says to copy for clusters: options and settings that this Spark has, for files that are there."""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "export.md").read_text()
JARS = Path(pyspark.__path__[0], "jars")


def commands() -> dict[str, list[str]]:
    """By where they are for: standalone, YARN, Kubernetes."""
    rows = re.findall(r"^\| (\w+) \| .*`(spark-submit .+?)`", PAGE, re.MULTILINE)
    return {name: shlex.split(command) for name, command in rows}


def has_word(jar: str, word: str) -> bool:
    """Whether a class of the jar has this text."""
    (path,) = JARS.glob(f"{jar}_*.jar")
    with ZipFile(path) as archive:
        classes = (name for name in archive.namelist() if name.endswith(".class"))
        return any(word.encode() in archive.read(name) for name in classes)


def settings_of(words: list[str]) -> Iterator[str]:
    for option, value in pairwise(words):
        if option == "--conf":
            yield value.partition("=")[0]


def test_there_is_a_recipe_for_each_kind_of_cluster() -> None:
    assert set(commands()) == {"standalone", "YARN", "Kubernetes"}


@pytest.mark.parametrize("where", ["standalone", "YARN", "Kubernetes"])
def test_the_options_of_a_recipe_are_those_of_spark_submit(where: str) -> None:
    words = commands()[where]
    script = next(each for each in words if each.endswith("/export.py"))
    assert (CHECKOUT / "spark" / Path(script).name).exists()
    options = [each for each in words[: words.index(script)] if each.startswith("--")]
    assert "--master" in options
    assert [each for each in options if not has_word("spark-launcher", each)] == []


@pytest.mark.parametrize(
    ("where", "jar"), [("standalone", "spark-core"), ("YARN", "spark-yarn"), ("Kubernetes", "spark-kubernetes")]
)
def test_the_settings_of_a_recipe_are_those_of_spark(where: str, jar: str) -> None:
    names = list(settings_of(commands()[where]))
    assert names
    for name in names:
        # Of spark.executorEnv.NAME, Spark knows what is before NAME.
        known = re.sub(r"(Env\.)[A-Z_]+$", r"\1", name)
        assert has_word(jar, known) or has_word("spark-core", known), name


def test_workers_are_told_of_credentials_as_the_page_says() -> None:
    (setting,) = re.findall(r"`--conf (spark\.executorEnv\.)AWS_ACCESS_KEY_ID=…`", PAGE)
    assert has_word("spark-core", setting)
