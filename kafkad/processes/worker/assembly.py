"""Builds the parts of a worker."""

from functools import partial
from typing import Protocol

from kafkad.adapters.files.file_cache import FileCache
from kafkad.adapters.operating_system.clocks import monotonic_ms
from kafkad.adapters.shared_memory.process_registry import ProcessKey
from kafkad.core.coordinator.producer_ids import ProducerIdBlocks
from kafkad.core.log.effects import UnlinkFiles
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.connection_timeouts import timeouts_of
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.processes.worker.appending import Appender
from kafkad.processes.worker.cleaning.passes import Cleanings
from kafkad.processes.worker.coordinators.export_offsets import ExportOffsetsReader
from kafkad.processes.worker.coordinators.lags import GroupLagsReader
from kafkad.processes.worker.coordinators.messages import Coordination
from kafkad.processes.worker.coordinators.shard_kinds import shard_kinds
from kafkad.processes.worker.coordinators.shards import CoordinatorShards
from kafkad.processes.worker.coordinators.shared_response import SharedResponse
from kafkad.processes.worker.coordinators.transactions.marker_channel import TxnMarkerChannel
from kafkad.processes.worker.coordinators.transactions.marker_writer import TxnMarkerWriter
from kafkad.processes.worker.coordinators.transactions.other_brokers import OtherBrokers
from kafkad.processes.worker.coordinators.transactions.transaction_verification import TransactionVerification
from kafkad.processes.worker.coordinators.transactions.transactional_produce import retry_pauses
from kafkad.processes.worker.disks.disk_space import DiskSpace
from kafkad.processes.worker.disks.recovery_read_ahead import RecoveryReadAhead
from kafkad.processes.worker.failed_partitions import FailedPartitions
from kafkad.processes.worker.loading import DirectoryState, Loader
from kafkad.processes.worker.moving.moves import Moves
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.partition_requests import PartitionRequests
from kafkad.processes.worker.partitions import Partitions
from kafkad.processes.worker.periodic import Periodic
from kafkad.processes.worker.replication.following import Following
from kafkad.processes.worker.replication.leading import Leading
from kafkad.processes.worker.replication.log_lines import ReplicationLog
from kafkad.processes.worker.slot_publisher import SlotPublisher
from kafkad.processes.worker.upkeep import Upkeep
from kafkad.wire.processes.controller_messages import ControllerMessage
from kafkad.wire.processes.descriptors import FilesRemoved, pack_control


class Shell(Protocol):
    """The worker process, as its parts use it."""

    loop: EventLoop

    def touched(self, owned: OwnedPartition) -> None: ...

    def publish(self, owned: OwnedPartition) -> None: ...

    def withdrawn(self, owned: OwnedPartition) -> None: ...

    def role_changed(self, owned: OwnedPartition) -> None: ...

    def remove_later(self, owned: OwnedPartition, effect: UnlinkFiles) -> None: ...

    def log_dir_failed(self, log_dir: int, cause: str) -> None: ...

    def free_up_space(self, log_dir: int) -> None: ...

    def report_full_directories(self) -> None: ...

    def send_to_network(self, network: int, frame: bytes) -> None: ...

    def send_to(self, peer: ProcessKey, frame: bytes) -> None: ...

    def try_send(self, peer: ProcessKey, frame: bytes) -> bool: ...

    def notify_controller(self, message: ControllerMessage) -> None: ...

    def advanced(self, owned: OwnedPartition) -> None: ...

    def flushed(self, owned: OwnedPartition) -> None: ...

    def published(self, owned: OwnedPartition) -> None: ...


class Assembly:
    """Builds the parts once, in the order of their dependencies."""

    def __init__(self, shell: Shell, context: ChildContext, now_ms: int) -> None:
        self._assemble_partitions(shell, context)
        dirs = context.config.log_dirs
        failed_partitions = FailedPartitions(shell.log_dir_failed, shell.publish, shell.withdrawn)
        transaction_verification = self._assemble_coordinators(shell, context, failed_partitions, now_ms)
        self.appender = Appender(
            self.partitions.by_slot,
            self.partitions.deleted,
            [arena.view for arena in context.arenas],
            now_ms=now_ms,
            block=context.block,
            touched=shell.touched,
            send=shell.send_to_network,
            failed=failed_partitions.failed,
            coordinators=transaction_verification,
            retry=retry_pauses(context.config),
            disk_space=self.disk_space,
        )
        self.upkeep = _upkeep(shell, context, failed_partitions, self.disk_space)
        self.replication_log = ReplicationLog()
        self.leading = self._leading(shell, context)
        self.partition_requests = PartitionRequests(
            self.partitions.by_slot,
            now_ms=now_ms,
            block=context.block,
            send=shell.send_to,
            touched=shell.touched,
            publish=shell.publish,
            remove_later=shell.remove_later,
            failed_partitions=failed_partitions,
            write_markers=self.marker_writer.write,
            deletions=self.leading,
        )
        self.cleanings = self._assemble_cleanings(shell, context, failed_partitions)
        self.periodic = Periodic(
            self.partitions.by_slot,
            now_ms=now_ms,
            expiration_check_ms=dirs.producer_id_expiration_check_interval_ms,
            flush_check_ms=dirs.log_flush_scheduler_interval_ms,
            first_flush_ms=now_ms + dirs.log_initial_task_delay_ms,
            collect=self.upkeep.collect,
            failed=failed_partitions.failed,
        )
        self.following = self._assemble_following(shell, context, failed_partitions)
        self.slot_publisher = self._assemble_publisher(shell, context, failed_partitions)

    def _assemble_publisher(
        self, shell: Shell, context: ChildContext, failed_partitions: FailedPartitions
    ) -> SlotPublisher:
        return SlotPublisher(
            self.partitions.by_slot,
            context.table,
            context.block,
            context.registry.role("network"),
            send=shell.send_to,
            lead=self.leading.advance,
            advanced=shell.advanced,
            published=shell.published,
            failed=failed_partitions.failed,
        )

    def _leading(self, shell: Shell, context: ChildContext) -> Leading:
        lag_ms = context.config.values["replica.lag.time.max.ms"]
        assert isinstance(lag_ms, int), "it is an integer option"
        return Leading(
            self.partitions.by_slot,
            broker_id=context.config.node_id,
            max_lag_ms=lag_ms,
            live_brokers=lambda: self.partitions.image.brokers,
            touched=shell.touched,
            notify_controller=shell.notify_controller,
            lines=self.replication_log.lines,
            block=context.block,
        )

    def _assemble_cleanings(
        self, shell: Shell, context: ChildContext, failed_partitions: FailedPartitions
    ) -> Cleanings:
        return Cleanings(
            self.partitions.by_slot,
            context.registry,
            send=shell.send_to,
            publish=shell.publish,
            touched=shell.touched,
            remove_later=shell.remove_later,
            sync_names=self.upkeep.sync_names,
            respond_to_waiting=self.partition_requests.respond_to_waiting,
            failed_partitions=failed_partitions,
        )

    def _assemble_following(
        self, shell: Shell, context: ChildContext, failed_partitions: FailedPartitions
    ) -> Following:
        return Following(
            self.partitions.by_slot,
            context.registry,
            [arena.view for arena in context.shared.fetcher_arenas],
            send=shell.send_to,
            touched=shell.touched,
            publish=shell.publish,
            truncate_in=context.table.mark_truncation,
            remove_later=shell.remove_later,
            failed=failed_partitions.failed,
            disk_space=self.disk_space,
            lines=self.replication_log.lines,
            block=context.block,
        )

    def _assemble_partitions(self, shell: Shell, context: ChildContext) -> None:
        dirs = context.config.log_dirs
        files = FileCache(context.open_files.files_of_worker)
        directories = zip(context.log_directories, context.was_clean, strict=True)
        self.loader = Loader(
            [DirectoryState(directory, was_clean=was_clean) for directory, was_clean in directories],
            files,
            producer_expiration_ms=dirs.producer_id_expiration_ms,
            failed=shell.log_dir_failed,
            block=context.block,
            read_ahead=RecoveryReadAhead(dirs.num_recovery_threads_per_data_dir, len(context.log_directories)),
        )
        self.moves = Moves(
            [str(each.path) for each in context.log_directories],
            files,
            context.registry,
            at_a_time=_moves_at_a_time(context),
            rate=partial(self._bytes_to_move, len(context.registry.role("worker"))),
            min_free_bytes=self._min_free_bytes,
            publish=shell.publish,
            touched=shell.touched,
            notify_controller=shell.notify_controller,
            files_removed=partial(_files_removed, shell, len(context.registry.role("network"))),
            failed=shell.log_dir_failed,
        )
        self.partitions = Partitions(
            context.key.index,
            context.table,
            context.registry,
            self.loader,
            self.moves,
            context.config,
            withdrawn=shell.withdrawn,
            role_changed=shell.role_changed,
            state_changed=lambda owned: self.leading.update(owned),
            notify_controller=shell.notify_controller,
            is_short_of_space=self._is_short_of_space,
        )
        self.disk_space = DiskSpace(
            context.log_directories, self._min_free_bytes, shell.free_up_space, shell.report_full_directories
        )

    def _is_short_of_space(self, log_dir: int) -> bool:
        return log_dir in self.disk_space.short

    def _bytes_to_move(self, workers: int) -> int:
        """This worker's share, in bytes per second."""
        value = self.partitions.config.values["replica.alter.log.dirs.io.max.bytes.per.second"]
        assert isinstance(value, int), "it is an integer option"
        return -(-value // workers)

    def _min_free_bytes(self) -> int | None:
        value = self.partitions.config.values["kafkad.log.dirs.min.free.bytes"]
        assert value is None or isinstance(value, int), "it is an integer option"
        return value

    def _assemble_coordinators(
        self, shell: Shell, context: ChildContext, failed_partitions: FailedPartitions, now_ms: int
    ) -> TransactionVerification:
        partitions = self.partitions
        producer_ids = ProducerIdBlocks()
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        kinds = shard_kinds(context.config, partitions, producer_ids, context.plugins.group_assignors, context.block)
        self.coordinator_shards = CoordinatorShards(
            kinds,
            now_ms=now_ms,
            block=context.block,
            send=shell.send_to,
            touched=shell.touched,
            failed=failed_partitions.failed,
        )
        self.marker_writer = TxnMarkerWriter(
            partitions.by_slot,
            touched=shell.touched,
            failed=failed_partitions.failed,
            ended=self.coordinator_shards.transaction_ended,
        )
        shards, write = self.coordinator_shards, self.marker_writer.write
        self.other_brokers = others = self._other_brokers(shell, context)
        marker_channel = TxnMarkerChannel(
            context.key, partitions, shards, write=write, send=shell.try_send, other_brokers=others
        )
        transaction_verification = TransactionVerification(context.key, partitions, shards, shell.try_send, others)
        lags = SharedResponse(GroupLagsReader(shards, partitions, context.table).steps, shell.send_to)
        export_offsets = SharedResponse(ExportOffsetsReader(shards, partitions).steps, shell.send_to)
        self.coordinator_messages = Coordination(
            partitions,
            shards,
            marker_channel,
            transaction_verification,
            producer_ids,
            lags,
            export_offsets,
            shell.notify_controller,
            others,
        )
        return transaction_verification

    def _other_brokers(self, shell: Shell, context: ChildContext) -> OtherBrokers | None:
        cluster = context.config.cluster
        if cluster is None:
            return None
        return OtherBrokers(
            shell.loop,
            context.config.node_id,
            cluster.inter_broker_listener,
            timeouts_of(context.config.values, "request.timeout.ms"),
            verifies=cluster.versions.verifies,
            brokers=lambda: self.partitions.image.brokers,
        )


def _upkeep(
    shell: Shell,
    context: ChildContext,
    failed_partitions: FailedPartitions,
    disk_space: DiskSpace,
) -> Upkeep:
    def removed(slots: list[int]) -> None:
        _files_removed(shell, len(context.registry.role("network")), slots)
        disk_space.files_removed(monotonic_ms())

    failed = failed_partitions.failed
    return Upkeep(
        context.registry,
        context.block,
        failed=failed,
        flushed=shell.flushed,
        removed=removed,
        is_short_of_space=lambda log_dir: log_dir in disk_space.short,
    )


def _moves_at_a_time(context: ChildContext) -> int:
    """This worker's share of the broker's limit, at least one."""
    configured = context.config.log_dirs.num_replica_alter_log_dirs_threads
    total = len(context.log_directories) if configured is None else max(configured, 0)
    share, rest = divmod(total, len(context.registry.role("worker")))
    return max(1, share + (context.key.index < rest))


def _files_removed(shell: Shell, networks: int, slots: list[int]) -> None:
    frame = pack_control(FilesRemoved(slots))
    for network in range(networks):
        shell.send_to_network(network, frame)
