"""What the docs name is there: files, pages, modules."""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kafkad.cli.configuring import read_configuration

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_module_that_is_named_is_there(page: Path) -> None:
    """As the docs write them: from the checkout, or from kafkad/."""
    named = set(re.findall(r"`([\w.-]+(?:/[\w.-]+)*/(?:[\w.-]+\.py)?)`", page.read_text()))
    assert [path for path in named if not ((ROOT / path).exists() or (ROOT / "kafkad" / path).exists())] == []


def test_architecture_names_every_folder_and_process() -> None:
    text = (DOCS / "architecture.md").read_text()
    folders = [path.name for path in (ROOT / "kafkad").iterdir() if path.is_dir() and path.name[0] not in "_."]
    assert [name for name in folders if f"`kafkad/{name}/`" not in text] == []
    folders = [path.name for path in (ROOT / "kafkad" / "processes").iterdir() if path.is_dir() and path.name[0] != "_"]
    # `runtime` is what they share.
    assert [name for name in folders if name != "runtime" and f"| `{name}` |" not in text] == []


def test_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    assert [page.name for page in DOCS.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index] == []


def test_differences_say_each_thing_once() -> None:
    rows = [line.split(" | ")[0] for line in (DOCS / "differences.md").read_text().splitlines() if line[:2] == "| "]
    assert [row for row, count in Counter(rows).items() if count > 1] == []


def test_brokers_on_one_host_can_be_started_by_hand_from_the_files_of_the_cluster_page(tmp_path: Path) -> None:
    """Without systemd each broker would take the folder of the user who starts it."""
    page = (DOCS / "cluster.md").read_text()
    section = re.search(r"## Three brokers on one host\n.*?(for n in .*?done\n)", page, re.DOTALL)
    assert section is not None
    script = section[1].replace("/etc/kafkad", str(tmp_path)).replace("systemctl", "true")
    subprocess.run(["sh", "-euc", script], check=True)
    configs = [read_configuration(str(tmp_path / f"{n}.properties"), ()) for n in (1, 2, 3)]
    assert len({config.node_id for config in configs}) == 3
    assert len({config.log_dirs.log_dirs for config in configs}) == 3
    assert len({config.network.listeners for config in configs}) == 3
