"""Which limits of memory are enough: more for more processes, never less than what clients can make a broker hold."""

from kafkad.core.supervision.memory import recommended_memory, required_by_process

MB = 1 << 20


def test_what_clients_can_make_a_broker_hold_is_in_every_limit() -> None:
    assert required_by_process() > 200 * MB
    assert recommended_memory(processes=6, arena_bytes=0) > 200 * MB


def test_arenas_and_processes_count() -> None:
    few = recommended_memory(processes=6, arena_bytes=100 * MB)
    assert few == 420 * MB
    assert recommended_memory(processes=7, arena_bytes=100 * MB) > few
    assert recommended_memory(processes=6, arena_bytes=200 * MB) == few + 100 * MB
