"""One log line per peer and minute, a count of the others, and bounded memory."""

from kafkad.core.connections.peer_log_rate_limit import MAX_PEERS, OTHERS, QUIET_MS, PeerLogRateLimit


def test_first_complaint_of_a_minute_is_said_and_the_others_are_counted() -> None:
    log_rate_limit = PeerLogRateLimit()
    assert [log_rate_limit.may_log("10.0.0.1", now) for now in (5, 6, QUIET_MS + 4)] == [True, False, False]
    assert log_rate_limit.may_log("10.0.0.2", 7)
    assert log_rate_limit.over(QUIET_MS + 4) == []
    assert log_rate_limit.next_ms == QUIET_MS + 5
    assert log_rate_limit.over(QUIET_MS + 5) == [("10.0.0.1", 2)]
    assert log_rate_limit.next_ms is None
    assert log_rate_limit.may_log("10.0.0.1", QUIET_MS + 5)


def test_several_lines_may_be_said_within_a_minute() -> None:
    log_rate_limit = PeerLogRateLimit(lines=3)
    assert [log_rate_limit.may_log("10.0.0.1", now) for now in range(5)] == [True, True, True, False, False]
    assert log_rate_limit.over(QUIET_MS) == [("10.0.0.1", 2)]
    assert log_rate_limit.may_log("10.0.0.1", QUIET_MS)


def test_nobody_has_to_wake_up_for_peers_of_whom_everything_was_said() -> None:
    log_rate_limit = PeerLogRateLimit()
    for number in range(10):
        assert log_rate_limit.may_log(f"10.0.0.{number}", 0)
    assert log_rate_limit.next_ms is None
    assert log_rate_limit.over(QUIET_MS) == []
    assert len(log_rate_limit) == 0


def test_stranger_with_a_whole_ipv6_network_has_one_line_and_one_entry() -> None:
    log_rate_limit = PeerLogRateLimit()
    said = [log_rate_limit.may_log(f"2001:db8::{number:x}", 0) for number in range(1, 5000)]
    assert (said.count(True), len(log_rate_limit)) == (1, 1)


def test_more_strangers_than_are_kept_apart_share_a_line_until_there_is_room() -> None:
    log_rate_limit = PeerLogRateLimit()
    said = [log_rate_limit.may_log(f"10.{number >> 8}.{number & 255}.1", 0) for number in range(5 * MAX_PEERS)]
    assert (said.count(True), len(log_rate_limit)) == (MAX_PEERS + 1, MAX_PEERS + 1)
    assert log_rate_limit.over(QUIET_MS) == [(OTHERS, 4 * MAX_PEERS - 1)]
    assert log_rate_limit.may_log("10.200.0.1", QUIET_MS)


def test_end_tells_of_what_was_not_said_yet() -> None:
    log_rate_limit = PeerLogRateLimit()
    for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        log_rate_limit.may_log(host, 0)
    assert (log_rate_limit.end(), len(log_rate_limit), log_rate_limit.next_ms) == ([("10.0.0.1", 1)], 0, None)
