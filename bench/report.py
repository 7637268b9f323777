"""The figures of each broker as JSON, and a Markdown table of all brokers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.figures import Better, Figure

_SUBJECT = "kafkad"


def save(path: Path, figures: Sequence[Figure], floor: Mapping[str, float]) -> None:
    """Write the figures of a broker; keeps saved rows that were not measured now."""
    measured = {figure.row for figure in figures}
    kept = [figure for figure in load(path) if figure.row not in measured]
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"floor": dict(floor), "figures": [asdict(figure) for figure in [*kept, *figures]]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def load(path: Path) -> list[Figure]:
    """The figures saved at `path`; empty if the file does not exist."""
    if not path.exists():
        return []
    rows = json.loads(path.read_text())["figures"]
    return [Figure(**{**row, "better": Better(row["better"])}) for row in rows]


def table(results: Mapping[str, Sequence[Figure]], floor: Mapping[str, float], yardstick: str = "apache") -> str:
    """One line for each figure, with the ratio by which kafkad is better than Apache Kafka."""
    brokers = list(results)
    lines = [f"| row | figure | {' | '.join(brokers)} | kafkad is better by |"]
    lines.append("|" + "---|" * (len(brokers) + 3))
    cells = {broker: {(f.row, f.name): f for f in figures} for broker, figures in results.items()}
    keys = list(dict.fromkeys(key for of_broker in cells.values() for key in of_broker))
    for key in keys:
        present = [of_broker.get(key) for of_broker in cells.values()]
        unit = next(figure.unit for figure in present if figure is not None)
        title = f"| {key[0]} | {key[1]}{', ' + unit if unit else ''} "
        numbers = "".join(f"| {_number(figure)} " for figure in present)
        lines.append(f"{title}{numbers}| {_ratio(cells, key, yardstick)} |")
    lines.append("")
    lines += [f"Floor of this machine, {name}: {seconds:.2f} CPU s/GB" for name, seconds in floor.items()]
    return "\n".join(lines)


def _number(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    if figure.value is None:
        return figure.why_not
    return f"{figure.value:,.0f}" if figure.value >= 1_000 else f"{figure.value:.3g}"


def _ratio(cells: Mapping[str, Mapping[tuple[str, str], Figure]], key: tuple[str, str], yardstick: str) -> str:
    ours, theirs = cells.get(_SUBJECT, {}).get(key), cells.get(yardstick, {}).get(key)
    if ours is None or theirs is None:
        return ""
    if ours.value == 0 and theirs.value:
        return "nothing measurable"
    advantage = ours.advantage_over(theirs)
    return "" if advantage is None else f"{advantage:.2f} ×" + ("" if advantage >= 1 else " (behind)")
