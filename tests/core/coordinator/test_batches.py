from kafkad.core.coordinator.batches import Replayed, unpack_batch
from tests.core.log.many_headers import BROKEN_HEADER, batch_with_headers


def test_replay_does_not_read_headers() -> None:
    batch = memoryview(batch_with_headers(9, BROKEN_HEADER))
    assert list(unpack_batch(batch, lambda key, value: (key, value))) == [Replayed((b"k", b"v"), 0, None)]
