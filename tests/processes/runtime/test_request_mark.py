"""The mark of the request that a controller handles: set while its code runs, and left when that ends the process."""

from collections.abc import Iterator

import pytest

from kafkad.adapters.shared_memory.process_registry import REGISTRY_BYTES, ProcessKey, ProcessRegistry
from kafkad.adapters.shared_memory.shared_region import SharedRegion
from kafkad.core.ports import NoSpaceLeft
from kafkad.processes.runtime.request_mark import LOOP, STORE_THREAD, RequestMark
from kafkad.wire.primitives import MalformedRequest

NETWORK, OTHER = ProcessKey("network", 0), ProcessKey("network", 1)


class Bug(Exception):
    """Of a handler or a plugin."""


@pytest.fixture
def registry() -> Iterator[ProcessRegistry]:
    region = SharedRegion("test-marks", REGISTRY_BYTES)
    yield ProcessRegistry(region, (NETWORK, OTHER))
    region.close()


def test_request_is_marked_while_it_is_handled(registry: ProcessRegistry) -> None:
    mark, other_thread = RequestMark(registry, LOOP), RequestMark(registry, STORE_THREAD)
    with mark.handling(NETWORK, 5), other_thread.handling(NETWORK, 6):
        assert (registry.handled(NETWORK), registry.handled(OTHER)) == ((5, 6), ())
    assert registry.handled(NETWORK) == ()


@pytest.mark.parametrize("error", [MalformedRequest("bad"), NoSpaceLeft("full")])
def test_error_that_is_not_the_fault_of_the_request_leaves_no_mark(registry: ProcessRegistry, error: Exception) -> None:
    with pytest.raises(type(error)), RequestMark(registry, LOOP).handling(NETWORK, 5):
        raise error
    assert registry.handled(NETWORK) == ()


def test_bug_leaves_the_mark_whatever_the_thread_does_until_the_process_ends(registry: ProcessRegistry) -> None:
    mark = RequestMark(registry, STORE_THREAD)
    with pytest.raises(Bug), mark.handling(NETWORK, 5):
        raise Bug
    with mark.handling(NETWORK, 6):
        pass
    assert registry.handled(NETWORK) == (5,)
