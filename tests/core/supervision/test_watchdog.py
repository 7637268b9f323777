"""When a process whose heartbeat stands still counts as hung."""

from kafkad.core.supervision.watchdog import CHECK_INTERVAL_MS, SILENT_MS, UNKILLABLE_MS, WORKING_MS, Watchdog


def looks(
    watchdog: Watchdog, *, beats: list[int], ticks: list[int], is_runnable: bool = False, may_work_longer: bool = False
) -> list[bool]:
    """Look at the usual times with these beats and ticks: at which look it was said to have hung."""
    said = []
    for number, (heartbeat, cpu_ticks) in enumerate(zip(beats, ticks, strict=True), start=1):
        now_ms = number * CHECK_INTERVAL_MS
        is_suspicious = watchdog.is_silent(heartbeat, now_ms)
        said.append(
            is_suspicious
            and watchdog.is_hung(now_ms, cpu_ticks=cpu_ticks, is_runnable=is_runnable, may_work_longer=may_work_longer)
        )
    return said


def test_one_that_beats_is_never_suspected() -> None:
    assert looks(Watchdog(), beats=[1, 2, 3, 4, 5], ticks=[7] * 5) == [False] * 5


def test_beat_that_stands_still_for_five_seconds_is_a_hang() -> None:
    still = SILENT_MS // CHECK_INTERVAL_MS
    assert looks(Watchdog(), beats=[1] * (still + 1), ticks=[7] * (still + 1)) == [False] * still + [True]


def test_one_that_works_is_given_longer() -> None:
    count = WORKING_MS // CHECK_INTERVAL_MS + 1
    assert looks(Watchdog(), beats=[1] * count, ticks=list(range(count))) == [False] * (count - 1) + [True]


def test_one_that_waits_for_its_disk_or_for_a_cpu_is_given_longer() -> None:
    count = WORKING_MS // CHECK_INTERVAL_MS + 1
    assert looks(Watchdog(), beats=[1] * count, ticks=[7] * count, is_runnable=True) == [False] * (count - 1) + [True]


def test_one_that_may_work_longer_is_given_any_time() -> None:
    count = 4 * WORKING_MS // CHECK_INTERVAL_MS
    assert True not in looks(Watchdog(), beats=[1] * count, ticks=list(range(count)), may_work_longer=True)


def test_one_that_may_work_longer_but_does_nothing_has_hung() -> None:
    count = SILENT_MS // CHECK_INTERVAL_MS + 1
    assert looks(Watchdog(), beats=[1] * count, ticks=[7] * count, may_work_longer=True)[-1]


def test_beat_after_a_silence_ends_it() -> None:
    assert True not in looks(Watchdog(), beats=[1, 1, 2, 2, 3, 3], ticks=[7] * 6)


def test_looks_that_come_late_start_the_silence_anew() -> None:
    """The machine was suspended, or the supervisor itself had no CPU: nobody could beat."""
    watchdog = Watchdog()
    watchdog.is_silent(1, 1000)
    assert not watchdog.is_silent(1, 1000 + 10 * SILENT_MS)
    assert watchdog.is_silent(1, 1000 + 10 * SILENT_MS + CHECK_INTERVAL_MS)


def test_one_that_was_killed_is_given_time_to_end() -> None:
    watchdog = Watchdog()
    assert not watchdog.outlives_kill(UNKILLABLE_MS)
    watchdog.killed_ms = 1000
    assert not watchdog.outlives_kill(1000 + UNKILLABLE_MS - 1)
    assert watchdog.outlives_kill(1000 + UNKILLABLE_MS)
