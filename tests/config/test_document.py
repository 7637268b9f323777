"""The docs and the sample file are what the code says."""

from pathlib import Path

from kafkad.config.document import DOCS, SAMPLE, configuration_page, sample_file
from kafkad.config.properties import parse
from kafkad.config.table import BROKER_TABLE
from kafkad.core.settings.option import Support
from tests.config.configurations import configured

CHECKOUT = Path(__file__).parents[2]
REWRITE = "run python -m kafkad.config.document"


def test_committed_docs_are_those_of_the_code() -> None:
    assert (CHECKOUT / DOCS).read_text(encoding="utf-8") == configuration_page(), REWRITE


def test_committed_sample_file_is_that_of_the_code() -> None:
    assert (CHECKOUT / SAMPLE).read_text(encoding="utf-8") == sample_file(), REWRITE


def test_sample_file_sets_nothing() -> None:
    assert parse(sample_file()) == []


def test_sample_file_shows_every_working_option_with_a_default_that_loads(tmp_path: Path) -> None:
    lines = [line.removeprefix("#") for line in sample_file().splitlines() if line.startswith("#") and "=" in line]
    options = [line for line in lines if not line.startswith((" ", "#"))]
    shown = {line.partition("=")[0] for line in options}
    assert shown == {name for name, row in BROKER_TABLE.items() if row.status.support is Support.WORKING}
    path = tmp_path / "server.properties"
    path.write_text("\n".join(line for line in options if not line.endswith("=")))
    assert configured(path=path).notices == ()
