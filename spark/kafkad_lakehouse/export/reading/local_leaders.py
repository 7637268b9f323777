"""The partitions with a leader on this machine, and their directories.

If the brokers of a cluster are on several machines, each machine exports the partitions of its own leaders, so that no
export reads a replica that is behind. Metadata has the leaders; `meta.properties` has the broker of a log directory.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from kafkad.adapters.files.log_directory import LogDirectoryUnusable, read_meta_properties
from kafkad.client.broker_client import BrokerClient
from kafkad.client.log_dirs import describe_log_dirs
from kafkad.core.ports import StorageFailed
from kafkad.core.types import TopicPartition
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.reading.log_directories import check_folders
from kafkad_lakehouse.export.request import ExportRequest


def local_leaders(client: BrokerClient, request: ExportRequest) -> dict[int, str]:
    """The directories of the partitions with a leader on this machine. Raises `ExportFailed`, `BrokerCallFailed`."""
    (topic,) = client.topics([request.topic])
    folders = list(_folders(client, request))
    if not folders:
        named = ", ".join(request.log_dirs)
        raise ExportFailed(
            f"{named or 'no log directory on this machine'} does not belong to a broker of cluster {client.cluster_id}:"
            " use --log-dirs or --partitions all"
        )
    brokers = {broker for broker, _ in folders}
    found: dict[int, str] = {}
    for each in topic.partitions:
        if each.leader not in brokers:
            continue
        name = str(TopicPartition(request.topic, each.partition))
        places = [
            path for broker, folder in folders if broker == each.leader and os.path.isdir(path := f"{folder}/{name}")
        ]
        if not places:
            raise ExportFailed(f"broker {each.leader} leads {name}, which is in none of its log directories here")
        found[each.partition] = places[0]
    return found


def _folders(client: BrokerClient, request: ExportRequest) -> Iterator[tuple[int, str]]:
    """The local log directories of brokers of this cluster, each with its broker."""
    if request.log_dirs:
        check_folders(request.log_dirs)
        folders: list[tuple[int | None, str]] = [(None, path) for path in request.log_dirs]
    else:
        # Brokers on other machines may have directories with the same path.
        folders = [(row.broker, row.path) for row in describe_log_dirs(client, {}) if row.error is None]
    for expected, path in folders:
        try:
            found = read_meta_properties(Path(path))
        except (LogDirectoryUnusable, StorageFailed) as error:
            raise ExportFailed(str(error)) from error
        if found is None or found.node_id is None or found.cluster_id != client.cluster_id:
            continue
        if expected is None or expected == found.node_id:
            yield found.node_id, path
