"""Notifies the parts of a worker when a partition is loaded, changes its role or leader epoch, or leaves.

Requests that wait for this leader fail at once when it is none any more. Groups survive a new leader epoch; a
transaction coordinator is loaded again in each epoch.
"""

from collections.abc import Sequence

from kafkad.core.controller.deltas import BrokerConfigChanged, BrokersChanged, Change, Snapshot, TopicConfigChanged
from kafkad.processes.worker.assembly import Assembly
from kafkad.processes.worker.coordinators.metadata_changes import notify_coordinators
from kafkad.processes.worker.owned import OwnedPartition


class Roles:
    """The changes of partitions, for each part of a worker."""

    def __init__(self, assembly: Assembly) -> None:
        self._appender = assembly.appender
        self._leading = assembly.leading
        self._following = assembly.following
        self._partition_requests = assembly.partition_requests
        self._coordinator_shards = assembly.coordinator_shards
        self._watchers = assembly.watchers
        self._other_brokers = assembly.other_brokers

    def metadata_changed(self, changes: Sequence[Change]) -> None:
        """Called after `Partitions` has applied the changes."""
        notify_coordinators(self._coordinator_shards, changes)
        if any(isinstance(change, TopicConfigChanged | BrokerConfigChanged) for change in changes):
            self._leading.reconfigured()
        if any(isinstance(change, BrokersChanged | Snapshot) for change in changes):
            self._leading.check_all()
            if self._other_brokers is not None:
                self._other_brokers.metadata_changed()

    def loaded(self, owned: OwnedPartition) -> None:
        """Its log is loaded."""
        self._partition_requests.respond_to_waiting(owned)
        self._leading.update(owned)
        self._following.check_again(owned)

    def changed(self, owned: OwnedPartition) -> None:
        """The slot is published at the end of the pass."""
        self._coordinator_shards.role_changed(owned)
        self._leading.update(owned)
        self._following.check_again(owned)
        if owned.leads:
            self._coordinator_shards.online(owned)
        else:
            self._respond_to_waiting(owned)

    def withdrawn(self, owned: OwnedPartition) -> None:
        """The partition has left this worker."""
        owned.led = None
        self._respond_to_waiting(owned)
        self._partition_requests.respond_to_waiting(owned)
        self._coordinator_shards.left(owned)

    def _respond_to_waiting(self, owned: OwnedPartition) -> None:
        self._appender.advanced(owned.slot)
        self._appender.flush_ended()
        self._partition_requests.pending_deletes.progressed(owned.slot)
        self._watchers.release(owned)
