"""The modules of the coordinators' APIs by API key.

All modules have the same three functions. Network processes use `reject` while a coordinator is unreachable.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kafkad.core.coordinator.shard import Caller, Moment, Outcome
from kafkad.core.errors import ErrorCode
from kafkad.handlers.coordinators.groups import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from kafkad.handlers.coordinators.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
)
from kafkad.wire import api_table
from kafkad.wire.steps import Reading


class CoordinatorModule(Protocol):
    """`request` is the decoded kio message about one shard."""

    def handle(self, request: Any, caller: Caller, shard: Any, moment: Moment, /) -> Outcome[Any]:
        """The outcome of the request; a rejection is a reply too."""

    def pack(self, reply: Any, version: int, /) -> bytes:
        """The response body of a reply from `handle` or a later outcome."""

    def reject(self, request: Any, version: int, code: ErrorCode, /) -> bytes:
        """The response body with `code` for the whole request."""


def _no_steps(_reply: Any, _version: int) -> None:
    return None


PackInSteps = Callable[[Any, int], tuple[int, Reading[bytes]] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedApi:
    """`name` is the name of kio's package."""

    name: str
    module: CoordinatorModule
    pack_in_steps: PackInSteps = _no_steps
    """Returns the size of a reply and the steps that pack it; None if it is small enough for `pack`."""
    reads_only: bool = False
    """Whether `handle` changes no state, so that no exception can leave a partial change."""


def _api(name: str, module: CoordinatorModule) -> CoordinatedApi:
    return CoordinatedApi(name=name, module=module)


def _reading(name: str, module: CoordinatorModule, pack_in_steps: PackInSteps = _no_steps) -> CoordinatedApi:
    return CoordinatedApi(name=name, module=module, pack_in_steps=pack_in_steps, reads_only=True)


COORDINATED: dict[int, CoordinatedApi] = {
    api_table.OFFSET_COMMIT: _api("offset_commit", offset_commit),
    api_table.OFFSET_FETCH: _reading("offset_fetch", offset_fetch, offset_fetch.pack_in_steps),
    api_table.JOIN_GROUP: _api("join_group", join_group),
    api_table.HEARTBEAT: _api("heartbeat", heartbeat),
    api_table.LEAVE_GROUP: _api("leave_group", leave_group),
    api_table.SYNC_GROUP: _api("sync_group", sync_group),
    api_table.DESCRIBE_GROUPS: _reading("describe_groups", describe_groups),
    api_table.LIST_GROUPS: _reading("list_groups", list_groups),
    api_table.INIT_PRODUCER_ID: _api("init_producer_id", init_producer_id),
    api_table.ADD_PARTITIONS_TO_TXN: _api("add_partitions_to_txn", add_partitions_to_txn),
    api_table.ADD_OFFSETS_TO_TXN: _api("add_offsets_to_txn", add_offsets_to_txn),
    api_table.END_TXN: _api("end_txn", end_txn),
    api_table.TXN_OFFSET_COMMIT: _api("txn_offset_commit", txn_offset_commit),
    api_table.DELETE_GROUPS: _api("delete_groups", delete_groups),
    api_table.OFFSET_DELETE: _api("offset_delete", offset_delete),
    api_table.CONSUMER_GROUP_HEARTBEAT: _api("consumer_group_heartbeat", consumer_group_heartbeat),
    api_table.CONSUMER_GROUP_DESCRIBE: _reading("consumer_group_describe", consumer_group_describe),
    api_table.DESCRIBE_TRANSACTIONS: _reading("describe_transactions", describe_transactions),
    api_table.LIST_TRANSACTIONS: _reading("list_transactions", list_transactions),
}
"""By API key. InitProducerId without a transactional id goes to the controller instead."""


def reads_only(api_key: int) -> bool:
    """Whether the handler of this API changes no state."""
    api = COORDINATED.get(api_key)
    return api is not None and api.reads_only
