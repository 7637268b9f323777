"""Builds the parts of a worker."""

from kafkad.adapters.files.file_cache import FileCache
from kafkad.core.coordinator.producer_ids import ProducerIdBlocks
from kafkad.processes.runtime.child import ChildContext
from kafkad.processes.runtime.connection_timeouts import timeouts_of
from kafkad.processes.runtime.event_loop import EventLoop
from kafkad.processes.runtime.peers import Sender
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
from kafkad.processes.worker.loading import DirectoryState, Loader
from kafkad.processes.worker.moving.moves import Moves
from kafkad.processes.worker.outbox import Outbox
from kafkad.processes.worker.owned import OwnedPartition
from kafkad.processes.worker.partition_requests import PartitionRequests
from kafkad.processes.worker.partitions import Partitions
from kafkad.processes.worker.periodic import Periodic
from kafkad.processes.worker.replication.following import Following
from kafkad.processes.worker.replication.leading import Leading
from kafkad.processes.worker.replication.log_lines import ReplicationLog
from kafkad.processes.worker.slots import Slots, Watchers
from kafkad.processes.worker.upkeep import Upkeep


class Assembly:
    """Builds the parts once, in the order of their dependencies."""

    def __init__(self, loop: EventLoop, sender: Sender, context: ChildContext, now_ms: int) -> None:
        self._loop = loop
        self._sender = sender
        self._networks = context.registry.role("network")
        by_slot: dict[int, OwnedPartition] = {}
        self.outbox = outbox = Outbox(by_slot)
        self.slots = Slots(context.table, context.block, outbox)
        self.watchers = Watchers(by_slot, self._networks, sender)
        self.disk_space = DiskSpace(context.log_directories, context.config, outbox)
        self.partitions = self._partitions(context, by_slot)
        verification = self._assemble_coordinators(context, now_ms)
        self.appender = Appender(
            by_slot,
            self.partitions.deleted,
            [arena.view for arena in context.arenas],
            now_ms=now_ms,
            block=context.block,
            sender=sender,
            networks=self._networks,
            outbox=outbox,
            verifier=verification,
            retry=retry_pauses(context.config),
            disk_space=self.disk_space,
        )
        self.upkeep = Upkeep(context.registry, context.block, outbox, self.disk_space.short)
        self.replication_log = ReplicationLog()
        lag_ms = context.config.values["replica.lag.time.max.ms"]
        assert isinstance(lag_ms, int), "it is an integer option"
        self.leading = Leading(
            self.partitions, outbox, max_lag_ms=lag_ms, lines=self.replication_log.lines, block=context.block
        )
        self._assemble_work_on_logs(context, by_slot, now_ms)

    def _assemble_work_on_logs(self, context: ChildContext, by_slot: dict[int, OwnedPartition], now_ms: int) -> None:
        """The parts that change logs, other than by Produce."""
        sender, outbox = self._sender, self.outbox
        self.partition_requests = PartitionRequests(
            by_slot,
            now_ms=now_ms,
            block=context.block,
            sender=sender,
            outbox=outbox,
            slots=self.slots,
            marker_writer=self.marker_writer,
            deletions=self.leading,
        )
        self.cleanings = Cleanings(
            by_slot, context.registry, sender=sender, outbox=outbox, slots=self.slots, upkeep=self.upkeep
        )
        dirs = context.config.log_dirs
        self.periodic = Periodic(
            by_slot,
            now_ms=now_ms,
            expiration_check_ms=dirs.producer_id_expiration_check_interval_ms,
            flush_check_ms=dirs.log_flush_scheduler_interval_ms,
            first_flush_ms=now_ms + dirs.log_initial_task_delay_ms,
            outbox=outbox,
        )
        self.following = Following(
            by_slot,
            context.registry,
            [arena.view for arena in context.shared.fetcher_arenas],
            sender=sender,
            outbox=outbox,
            slots=self.slots,
            disk_space=self.disk_space,
            lines=self.replication_log.lines,
            block=context.block,
        )

    def _partitions(self, context: ChildContext, by_slot: dict[int, OwnedPartition]) -> Partitions:
        dirs = context.config.log_dirs
        files = FileCache(context.open_files.files_of_worker)
        directories = zip(context.log_directories, context.was_clean, strict=True)
        self.loader = Loader(
            [DirectoryState(directory, was_clean=was_clean) for directory, was_clean in directories],
            files,
            producer_expiration_ms=dirs.producer_id_expiration_ms,
            outbox=self.outbox,
            block=context.block,
            read_ahead=RecoveryReadAhead(dirs.num_recovery_threads_per_data_dir, len(context.log_directories)),
        )
        self.moves = Moves(
            [str(each.path) for each in context.log_directories],
            files,
            context.registry,
            at_a_time=_moves_at_a_time(context),
            config=context.config,
            outbox=self.outbox,
            slots=self.slots,
            disk_space=self.disk_space,
        )
        return Partitions(
            context.key.index,
            context.table,
            context.registry,
            self.loader,
            self.moves,
            context.config,
            self.outbox,
            by_slot,
            self.disk_space.short,
        )

    def _assemble_coordinators(self, context: ChildContext, now_ms: int) -> TransactionVerification:
        partitions, sender, outbox = self.partitions, self._sender, self.outbox
        producer_ids = ProducerIdBlocks()
        assert context.plugins is not None, "the supervisor loads the plugins before it forks"
        kinds = shard_kinds(context.config, partitions, producer_ids, context.plugins.group_assignors, context.block)
        self.coordinator_shards = shards = CoordinatorShards(
            kinds, now_ms=now_ms, block=context.block, sender=sender, outbox=outbox
        )
        self.marker_writer = TxnMarkerWriter(partitions.by_slot, outbox, shards)
        self.other_brokers = others = self._other_brokers(context)
        marker_channel = TxnMarkerChannel(context.key, partitions, shards, self.marker_writer, sender, others)
        verification = TransactionVerification(context.key, partitions, shards, sender, others)
        self.coordinator_messages = Coordination(
            partitions,
            shards,
            marker_channel,
            verification,
            producer_ids,
            SharedResponse(GroupLagsReader(shards, partitions, context.table), sender),
            SharedResponse(ExportOffsetsReader(shards, partitions), sender),
            outbox,
            others,
        )
        return verification

    def _other_brokers(self, context: ChildContext) -> OtherBrokers | None:
        cluster = context.config.cluster
        if cluster is None:
            return None
        return OtherBrokers(
            self._loop,
            context.config.node_id,
            cluster.inter_broker_listener,
            timeouts_of(context.config.values, "request.timeout.ms"),
            verifies=cluster.versions.verifies,
            brokers=lambda: self.partitions.image.brokers,
        )


def _moves_at_a_time(context: ChildContext) -> int:
    """This worker's share of the broker's limit, at least one."""
    configured = context.config.log_dirs.num_replica_alter_log_dirs_threads
    total = len(context.log_directories) if configured is None else max(configured, 0)
    share, rest = divmod(total, len(context.registry.role("worker")))
    return max(1, share + (context.key.index < rest))
