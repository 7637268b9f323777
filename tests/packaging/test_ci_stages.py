"""What runs the stages of CI: a stage that goes wrong is named, whatever way it goes wrong, and so is what is slow."""

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[2]
CI: dict[str, Any] = runpy.run_path(str(CHECKOUT / ".ci" / "stages.py"))
Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `command` as a stage."""
    monkeypatch.setitem(CI["run"].__globals__, "LOGS", tmp_path)
    # A stage's mark is inherited by all its processes: this one may run in a stage.
    monkeypatch.delenv(CI["MARK"], raising=False)

    def run_stage(command: str, limit: float = 5.0) -> Any:
        stage = CI["Stage"](name=f"of process {os.getpid()}", command=command, budget=1.0, limit=limit)
        return CI["run"](stage, 0, 1)

    return run_stage


def test_stage_that_passes_has_its_cpu_time_counted(run: Run) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    # The grandchild is adopted: who started it has ended before.
    outcome = run(f"{{ {sys.executable} -c '{busy}' & }}; wait")
    assert outcome.failure == "" and outcome.cpu_seconds >= 0.3


def test_stage_whose_command_fails_says_its_exit_code(run: Run) -> None:
    assert run("exit 3").failure == "exit code 3"


def test_stage_is_ended_at_its_limit(run: Run) -> None:
    assert run("exec tail -f /dev/null", limit=0.005).failure == "ended at its limit of 0.005 minutes"


def test_process_that_a_stage_leaves_is_named_and_ended(run: Run, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    left = f"setsid sh -c 'echo $$ >{pid}; exec tail -f {pid}' >/dev/null 2>&1"
    outcome = run(f"{left} & until test -s {pid}; do :; done")
    assert outcome.failure == f"left behind: tail -f {pid}"
    assert not Path("/proc", pid.read_text().strip()).exists()


def test_tests_are_counted_and_those_that_passed_the_second_time_are_flaky(run: Run, tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.write_text(
        "RERUN tests/a.py::always\nE   assert 1\nFAILED tests/a.py::always - assert False\n"
        "RERUN tests/a.py::once\n    assert found\nE       assert 0\nPASSED tests/a.py::once\n"
        "=========== short test summary info ===========\nFAILED tests/a.py::always\n"
        "=========== 1 failed, 20 passed, 3 deselected, 2 rerun in 12.30s ===========\n"
        "========= 7 passed, 1 error in 812.30s (0:13:32) =========\n"
    )
    outcome = run(f"cat {said}")
    assert (outcome.passed, outcome.failed) == (27, 2)
    assert outcome.failures == ["tests/a.py::always - assert False"]
    assert outcome.flaky == {"tests/a.py::once": ["assert 0"]}


def test_table_ends_with_what_is_over_its_budget(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = run("true")
    outcome.failures.append("tests/a.py::always - assert False")
    outcome.flaky["tests/a.py::once"] = ["assert 0"]
    CI["print_table"]([outcome], 44.0)
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "failed: tests/a.py::always - assert False",
        "flaky: tests/a.py::once",
        "    assert 0",
        "every stage is within its budget",
    ]
    outcome.minutes = 1.5
    CI["print_table"]([outcome], 46.0)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"over their budget of minutes: {outcome.stage.name} (1.5 of 1), all (46.0 of 45)"


def test_budgets_of_stages_add_up_to_the_budget_of_all() -> None:
    def minutes(step: Any) -> float:
        lanes = ((step,),) if isinstance(step, CI["Stage"]) else step
        return max(float(sum(each.budget for each in lane)) for lane in lanes)

    assert sum(map(minutes, CI["PLAN"])) <= CI["BUDGET_MINUTES"]
