"""The lists of all shards put together as bytes: what kio reads is what the shards have said."""

from typing import Any

import pytest

from kafkad.core.errors import ErrorCode
from kafkad.core.groups.group import GroupType
from kafkad.core.groups.listing import ListedGroup
from kafkad.core.transactions.requests import ListedTransaction, TransactionsListed
from kafkad.handlers.coordinators.groups import list_groups
from kafkad.handlers.coordinators.requests.lists import joined
from kafkad.handlers.coordinators.transactions import list_transactions
from kafkad.wire.api_table import LIST_GROUPS, LIST_TRANSACTIONS
from tests.handlers.kio_calls import KioApi, versions_of

SHARDS = [(), ("a",), tuple(f"group-{number}" for number in range(200)), ("z", "y")]
NAMES = [name for shard in SHARDS for name in shard]


def _groups(names: tuple[str, ...], version: int) -> bytes:
    rows = tuple(
        ListedGroup(group_id=name, protocol_type="consumer", state="Stable", type=GroupType.CLASSIC) for name in names
    )
    return list_groups.pack(list_groups.Listed(groups=rows), version)


def _transactions(names: tuple[str, ...], version: int) -> bytes:
    rows = tuple(ListedTransaction(name, 7, "Ongoing") for name in names)
    return list_transactions.pack(TransactionsListed(unknown_states=("Odd", "Odder"), transactions=rows), version)


@pytest.mark.parametrize("version", versions_of(LIST_GROUPS))
def test_groups_of_all_shards(version: int) -> None:
    api = KioApi("list_groups", version)
    listed: Any = api.read(joined(LIST_GROUPS, version, [_groups(names, version) for names in SHARDS]))
    assert [row.group_id for row in listed.groups] == NAMES
    assert int(listed.error_code) == ErrorCode.NONE


@pytest.mark.parametrize("version", versions_of(LIST_TRANSACTIONS))
def test_transactions_of_all_shards(version: int) -> None:
    api = KioApi("list_transactions", version)
    listed: Any = api.read(joined(LIST_TRANSACTIONS, version, [_transactions(names, version) for names in SHARDS]))
    assert [row.transactional_id for row in listed.transaction_states] == NAMES
    assert listed.unknown_state_filters == ("Odd", "Odder")


@pytest.mark.parametrize("version", versions_of(LIST_GROUPS))
def test_an_error_of_one_shard_is_that_of_all(version: int) -> None:
    refused = list_groups.pack(list_groups.Listed(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), version)
    answers = [_groups(("a",), version), refused, _groups(("b",), version)]
    listed: Any = KioApi("list_groups", version).read(joined(LIST_GROUPS, version, answers))
    assert (int(listed.error_code), listed.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())
