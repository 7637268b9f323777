"""docs/apis.md is what the API table says."""

import re
from pathlib import Path

from kafkad.wire.api_table import APIS
from kafkad.wire.document import PAGE, apis_page

CHECKOUT = Path(__file__).parents[2]


def test_committed_page_is_that_of_the_table() -> None:
    assert (CHECKOUT / PAGE).read_text(encoding="utf-8") == apis_page(), "run python -m kafkad.wire.document"


def test_page_has_each_api_with_its_range() -> None:
    rows = re.findall(r"^\| (\d+) \| \w+ \| (\d+)(?:–(\d+))? \|", apis_page(), re.MULTILINE)
    found = {int(key): (int(low), int(high or low)) for key, low, high in rows}
    assert found == {key: (api.min_version, api.max_version) for key, api in APIS.items()}
