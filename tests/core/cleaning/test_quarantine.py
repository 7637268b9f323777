from kafkad.core.cleaning.quarantine import FIRST_PAUSE_MS, LONGEST_PAUSE_MS, Quarantine


def test_the_pauses_grow() -> None:
    quarantine: Quarantine[str] = Quarantine()
    now_ms, pauses = 0, []
    for _ in range(9):
        pause_ms = quarantine.failed("a", now_ms)
        pauses.append(pause_ms)
        assert quarantine.is_closed("a", now_ms + pause_ms - 1)
        assert not quarantine.is_closed("a", now_ms + pause_ms)
        now_ms += pause_ms
    assert pauses[:3] == [FIRST_PAUSE_MS, 2 * FIRST_PAUSE_MS, 4 * FIRST_PAUSE_MS]
    assert pauses[-1] == LONGEST_PAUSE_MS


def test_who_is_released_may_be_tried_at_once_and_begins_anew() -> None:
    quarantine: Quarantine[str] = Quarantine()
    quarantine.failed("a", 0)
    quarantine.failed("a", 0)
    quarantine.failed("b", 0)
    quarantine.release(lambda key: key == "a")
    assert (quarantine.is_closed("a", 0), quarantine.is_closed("b", 0)) == (False, True)
    assert quarantine.failed("a", 0) == FIRST_PAUSE_MS
    assert len(quarantine) == 2
