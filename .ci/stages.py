"""The stages of CI: what each runs, its limit and its budget. The table at the end says what each took.

Usage: stages.py [SECONDS]      SECONDS: when the run began, in seconds since 1970

Every stage runs, whatever fails before it, except where a stage is needed by all that follow. A stage fails when its
command fails, reaches its limit or leaves a process behind. CPU seconds are those of all processes of the stage. Where
real processes are tested, a failed test runs once more (`--reruns` of pytest): one that passes then is listed as flaky,
with what had failed.
"""

import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
LOGS = CHECKOUT / "build" / "ci"
BUDGET_MINUTES = 45.0
KILL_AFTER_S = 20.0
MARK = "KAFKAD_CI_STAGE"
"""Inherited by every process that a stage starts, however it detaches itself."""
LANE = "KAFKAD_TEST_LANE"
"""`0/3`: the first of three lanes that run beside each other. Their tests take other ports."""
PR_SET_CHILD_SUBREAPER = 36
LONGEST_LINE = 200
"""Characters of a failure in the table at the end."""
TESTS_ENDED = re.compile(r"=+ (?P<counts>\d+ \w+.*) in [\d.]+s.*=+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """`budget`: what it may take on a quiet machine; `limit`: when it is ended. Both in minutes.

    The limit is at least four times the budget: a busy machine takes longer, and only a stage that hangs may reach it.
    """

    name: str
    command: str
    budget: float
    limit: float
    is_needed: bool = False
    """Nothing that follows means anything without it."""


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What is known of a stage at its end."""

    stage: Stage
    minutes: float
    cpu_seconds: float = 0.0
    failure: str = ""
    passed: int = 0
    failed: int = 0
    failures: list[str] = field(default_factory=list)
    """Tests that failed, twice where they are run twice, each with the first line of its error."""
    flaky: dict[str, list[str]] = field(default_factory=dict)
    """Tests that passed when they ran once more, and what pytest says of the error before."""


def tests(name: str, *, budget: float, limit: float) -> Stage:
    return Stage(name=name, command=f"make test ENVS={name}", budget=budget, limit=limit)


Lanes = tuple[tuple[Stage, ...], ...]
"""Lanes run beside each other, the stages of a lane one after the other."""
TOOLS = "python3 make kcat java javac mvn dpkg-buildpackage lintian mmdebstrap buildah pipx systemd-nspawn"
LOOK = "make bench BENCH='--broker kafkad --quick --rows start tiny-1 fetch-1'"
PLAN: tuple[Stage | Lanes, ...] = (
    Stage(
        name="tools", command=f"which {TOOLS}; ls /usr/share/java/zookeeper.jar", budget=0.1, limit=1, is_needed=True
    ),
    Stage(name="make venv", command="make venv", budget=0.5, limit=10, is_needed=True),
    Stage(name="environment", command="make environment", budget=1.5, limit=15, is_needed=True),
    # The translation into C uses one core.
    (
        (
            Stage(
                name="compile", command="PYTHON=.tox/tests/bin/python packaging/native/compile.sh", budget=6, limit=30
            ),
        ),
        (tests("types", budget=2, limit=10), tests("lint", budget=0.3, limit=2)),
    ),
    # Each of these leaves a core idle for much of the time: while machines boot, brokers are killed, others start.
    ((tests("unit", budget=13, limit=60),), (tests("daemon", budget=13, limit=60),)),
    (
        (tests("package", budget=18, limit=80),),
        (tests("spark", budget=15, limit=60), tests("chaos", budget=3, limit=20)),
        (tests("compat", budget=18, limit=80),),
    ),
    Stage(name="bench", command=LOOK, budget=1, limit=5),
)
PACKAGES = Stage(name="system packages", command="", budget=1.5, limit=10)
"""Installed by `.ci/run`, as Python may be among them."""
BEGIN = Stage(name="make run", command="", budget=0.2, limit=2, is_needed=True)
END = Stage(name="Ctrl-C", command="", budget=0.2, limit=1)


class BrokerByMakeRun:
    """`make run`, as the README says, beside all tests: it must answer soon, and stop cleanly at the end."""

    def __init__(self) -> None:
        print("=== make run", flush=True)
        command = ["make", "run", f"DATA={CHECKOUT}/build/ci-data"]
        self._make = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=marked(BEGIN.name))

    def begin(self) -> Outcome:
        began = time.monotonic()
        is_answered = False
        while not is_answered and self._make.poll() is None and time.monotonic() < began + 60 * BEGIN.limit:
            asked = subprocess.run(["kcat", "-L", "-m", "2", "-b", "127.0.0.1:9092"], capture_output=True, check=False)
            is_answered = asked.returncode == 0
            time.sleep(0.1)
        minutes = (time.monotonic() - began) / 60
        return Outcome(stage=BEGIN, minutes=minutes, failure="" if is_answered else "kcat got no answer")

    def stop(self) -> Outcome:
        began = time.monotonic()
        # The broker itself: make would die of the same signal and report that, not how the broker ended.
        subprocess.run(["pkill", "-INT", "-P", str(self._make.pid)], check=False)
        try:
            code = self._make.wait(60 * END.limit)
            failure = f"exit code {code}" if code else ""
        except subprocess.TimeoutExpired:
            failure = "it did not end"
        left = left_behind(BEGIN.name)
        if left:
            failure = failure or f"left behind: {'; '.join(left)}"
        return Outcome(stage=END, minutes=(time.monotonic() - began) / 60, failure=failure)


def marked(name: str) -> dict[str, str]:
    return {**os.environ, MARK: name}


def marked_processes(name: str) -> list[int]:
    """Living processes of a stage, without this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = f"{MARK}={name}".encode() in (folder / "environ").read_bytes().split(b"\0")
            is_dead = (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if is_ours and not is_dead and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def run_alone(name: str, limit_s: float, command: str, result: Path) -> None:
    """The process of one stage: adopts what its command leaves, so that the kernel counts all CPU time here."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A shell that starts this in the background has it ignored, and with it all programs that tests interrupt.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(["bash", "-euc", command], stdin=subprocess.DEVNULL, start_new_session=True)
    ended: list[int] = []

    def end(by: int) -> None:
        ended.append(by)
        os.killpg(process.pid, by)

    timers = [
        threading.Timer(limit_s, end, (signal.SIGTERM,)),
        threading.Timer(limit_s + KILL_AFTER_S, end, (signal.SIGKILL,)),
    ]
    for timer in timers:
        timer.start()
    code = None
    # Whoever ends is waited for, also children of processes that are gone: tests wait until these are no zombies.
    while code is None:
        pid, status = os.wait()
        if pid == process.pid:
            code = os.waitstatus_to_exitcode(status)
    for timer in timers:
        timer.cancel()
    failure = f"exit code {code}" if code else ""
    if ended:
        failure = f"ended at its limit of {limit_s / 60:g} minutes"
    left = left_behind(name)
    if left:
        failure = failure or f"left behind: {'; '.join(left)}"
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    result.write_text(json.dumps({"failure": failure, "cpu_seconds": used.ru_utime + used.ru_stime}))


def left_behind(name: str) -> list[str]:
    """Command lines of the stage's processes that are still there; they are killed."""
    deadline = time.monotonic() + 5
    # One that is just ending is given the time for it.
    while (pids := marked_processes(name)) and time.monotonic() < deadline:
        reap()
        time.sleep(0.1)
    left = []
    for pid in pids:
        try:
            left.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip())
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
    time.sleep(0.2 if pids else 0)
    reap()
    return left


def reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def run(stage: Stage, lane: int, lanes: int) -> Outcome:
    """Its output is printed as it comes, or at its end when another stage runs beside it."""
    is_alone = lanes == 1
    began = time.monotonic()
    slug = re.sub(r"\W+", "-", stage.name)
    result = LOGS / f"{slug}.json"
    result.unlink(missing_ok=True)
    command = [sys.executable, __file__, "--alone", stage.name, str(stage.limit * 60), stage.command, str(result)]
    print(f"=== {stage.name}", flush=True)
    with (LOGS / f"{slug}.log").open("w", buffering=1) as log:
        process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env={**marked(stage.name), LANE: f"{lane}/{lanes}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            log.write(line)
            if is_alone:
                print(line, end="", flush=True)
        process.wait()
    if not is_alone:
        print(f"=== {stage.name}, its output\n{''.join(lines)}", flush=True)
    found = json.loads(result.read_text()) if result.exists() else {"failure": "its process died", "cpu_seconds": 0}
    outcome = Outcome(stage=stage, minutes=(time.monotonic() - began) / 60, **found)
    count(outcome, lines)
    return outcome


def count(outcome: Outcome, lines: list[str]) -> None:
    """Adds up what pytest's closing lines say."""
    rerun: dict[str, list[str]] = {}
    failures: dict[str, str] = {}
    errors: list[str] = []
    """Of the test whose traceback the lines are."""
    for line in lines:
        ended = TESTS_ENDED.fullmatch(line.strip())
        if ended:
            counts = {word: int(number) for number, word in re.findall(r"(\d+) (\w+)", ended["counts"])}
            outcome.passed += counts.get("passed", 0)
            outcome.failed += counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
        elif line.startswith("RERUN "):
            errors = rerun.setdefault(line.split(" ", 1)[1].strip(), [])
        elif line.startswith("E  "):
            errors.append(line[1:].strip())
        elif line.startswith(("PASSED ", "===")):
            errors = []
        elif line.startswith(("FAILED ", "ERROR ")):
            failure = line.split(" ", 1)[1].strip()
            # Of the lists of failures one has the error as well.
            test = failure.split(" - ")[0]
            failures[test] = max(failures.get(test, ""), failure, key=len)
    outcome.failures = list(failures.values())
    outcome.flaky = {test: errors for test, errors in rerun.items() if test not in failures}


def run_lanes(lanes: Lanes) -> list[Outcome]:
    outcomes: list[Outcome] = []

    def run_lane(number: int) -> None:
        for each in lanes[number]:
            outcomes.append(run(each, number, len(lanes)))

    threads = [threading.Thread(target=run_lane, args=(number,)) for number in range(len(lanes))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def main(began_s: float) -> int:
    os.chdir(CHECKOUT)
    LOGS.mkdir(parents=True, exist_ok=True)
    outcomes = [Outcome(stage=PACKAGES, minutes=(time.time() - began_s) / 60)]
    broker = None
    for step in PLAN:
        outcomes += run_lanes(((step,),) if isinstance(step, Stage) else step)
        if any(each.failure and each.stage.is_needed for each in outcomes):
            break
        if broker is None and outcomes[-1].stage.name == "make venv":
            broker = BrokerByMakeRun()
            outcomes.append(broker.begin())
    if broker is not None:
        outcomes.append(broker.stop())
    print_table(outcomes, (time.time() - began_s) / 60)
    return int(any(each.failure for each in outcomes))


def print_table(outcomes: list[Outcome], minutes: float) -> None:
    passed, failed = sum(each.passed for each in outcomes), sum(each.failed for each in outcomes)
    rows = [
        (each.stage.name, each.minutes, each.stage.budget, each.passed + each.failed, each.cpu_seconds, each.failure)
        for each in outcomes
    ]
    rows.append(("all", minutes, BUDGET_MINUTES, passed + failed, sum(each.cpu_seconds for each in outcomes), ""))
    print(f"\n{'stage':15} minutes budget  tests  CPU s")
    for name, took, budget, count, cpu_seconds, error in rows:
        told = f"  FAILED: {error[:LONGEST_LINE]}" if error else ""
        print(f"{name:15} {took:7.1f} {budget:6g} {count or '':6} {cpu_seconds:6.0f}{told}")
    print(f"\n{passed} passed, {failed} failed")
    for each in outcomes:
        for failure in each.failures:
            print(f"failed: {failure[:LONGEST_LINE]}")
    for each in outcomes:
        for test, errors in each.flaky.items():
            print(f"flaky: {test}")
            for error in errors[:3]:
                print(f"    {error[:LONGEST_LINE]}")
    over = [f"{name} ({took:.1f} of {budget:g})" for name, took, budget, *_ in rows if took > budget]
    print(f"over their budget of minutes: {', '.join(over)}" if over else "every stage is within its budget")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        _, _, name, limit_s, command, result = sys.argv
        run_alone(name, float(limit_s), command, Path(result))
    else:
        sys.exit(main(float(sys.argv[1]) if sys.argv[1:] else time.time()))
