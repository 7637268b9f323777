"""Producer ids of transactions: each is given once, and blocks are requested early and one at a time."""

from random import Random

from kafkad.core.coordinator.producer_ids import EARLY, ProducerIdBlocks
from tests.amounts import random_seeds


def test_without_a_block_one_is_wanted_and_nobody_gets_an_id() -> None:
    blocks = ProducerIdBlocks()
    assert (blocks.take(), blocks.is_block_required) == (None, True)
    blocks.add(1000, 3)
    assert not blocks.is_block_required
    assert [blocks.take() for _ in range(4)] == [1000, 1001, 1002, None]


def test_the_next_block_is_wanted_early() -> None:
    blocks = ProducerIdBlocks()
    blocks.add(0, EARLY + 2)
    assert (blocks.take(), blocks.is_block_required) == (0, False)
    assert (blocks.take(), blocks.is_block_required) == (1, False)
    assert (blocks.take(), blocks.is_block_required) == (2, True)
    blocks.add(5000, 10)
    assert not blocks.is_block_required
    taken = [blocks.take() for _ in range(EARLY - 1 + 10)]
    assert taken == [*range(3, EARLY + 2), *range(5000, 5010)]


def test_a_shard_has_ids_fetched_before_it_needs_them() -> None:
    blocks = ProducerIdBlocks()
    blocks.prefetch()
    assert blocks.is_block_required
    blocks.add(0, 10)
    blocks.prefetch()
    assert not blocks.is_block_required


def test_a_question_that_was_lost_is_asked_again() -> None:
    blocks = ProducerIdBlocks()
    blocks.take()
    blocks.is_requested = True
    blocks.failed()
    assert (blocks.is_block_required, blocks.is_requested) == (True, False)


def test_no_id_is_given_twice_whenever_blocks_come() -> None:
    for seed in random_seeds("producer_id_lives"):
        random = Random(seed)
        blocks, taken, first = ProducerIdBlocks(), [], 0
        for _ in range(300):
            if blocks.is_block_required and random.random() < 0.3:
                blocks.add(first, random.choice([1, 50, 1000]))
                first += 1000
            producer_id = blocks.take()
            if producer_id is not None:
                taken.append(producer_id)
        assert len(set(taken)) == len(taken), f"seed {seed}"
        assert taken == sorted(taken), f"seed {seed}"
