"""`kafkad adopt`: show or prepare the takeover of log directories of Apache Kafka, with the configs of topics."""

import json
import os
import sys
from collections import Counter
from pathlib import Path

import click

from kafkad.adapters.files.log_directory import LogDirectoryUnusable
from kafkad.cli.adoption import report
from kafkad.cli.adoption.foreign_topics import ForeignCluster, UnreadableSource, read_configs_file
from kafkad.cli.adoption.found_partitions import FoundLogs, find_partitions, read_records
from kafkad.cli.adoption.kraft_metadata import DIRECTORY, read_kraft_metadata
from kafkad.cli.adoption.plan import TopicPlan, plan_topics
from kafkad.cli.adoption.takeover import node_id_of, stored_metadata, transfer
from kafkad.cli.adoption.zookeeper_metadata import read_zookeeper
from kafkad.cli.configuring import read_configuration
from kafkad.cli.errors import WrongConfiguration
from kafkad.cli.options import json_option
from kafkad.core.ports import StorageFailed

_PROBLEMS = 1

_DEFAULTS = (
    "Topics without a config of their own use the defaults in server.properties: copy the old ones "
    "(log.retention.hours, log.retention.bytes, log.cleanup.policy and others)."
)

_HELP = """Print what a broker would take over from log directories of Apache Kafka; with --yes, prepare the
directories.

Without --yes nothing is changed. The command reads every record and prints for each topic its partitions, size, codecs,
format, damage, and configs. The configs come from the first source that has the topic: --configs, --zookeeper, the
KRaft metadata log in one of the directories (or --metadata-log). Topics without a source keep their records forever,
until you change their retention. Other configs of a topic come from the server.properties of the new broker: copy the
defaults of the old broker, otherwise retention deletes records after seven days.

DIR... are the log.dirs of the new broker, in order; all must belong to one broker. Stop Apache Kafka first, and keep a
copy.

Exit code 0: no problem; 1: problems, each on one line; 2: wrong usage, and nothing was changed.

\b
Example:
  kafkad adopt /var/lib/kafka/data
  kafkad adopt --zookeeper zk1:2181/kafka /data1 /data2 --json
  kafka-topics.sh --bootstrap-server kafka:9092 --describe > topics.txt
  kafkad adopt --configs topics.txt --yes /var/lib/kafka/data
"""


@click.command(help=_HELP, short_help="Take over log directories of Apache Kafka.")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Apply the plan: the topics get their configs. Records are not changed.")
@click.option(
    "--configs",
    "configs_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='Configs by topic, as JSON ({"orders": {"retention.ms": "-1"}}) or as kafka-topics.sh --describe prints them.',
)
@click.option("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="The ZooKeeper of the cluster.")
@click.option(
    "--metadata-log",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help=f"The directory {DIRECTORY}, if it is not in one of DIR.",
)
@click.option("--quick", is_flag=True, help="Do not read the records: codecs, formats and damage are not printed.")
@json_option
def adopt(
    directories: tuple[Path, ...],
    yes: bool,
    configs_file: Path | None,
    zookeeper: str | None,
    metadata_log: Path | None,
    quick: bool,
    as_json: bool,
) -> None:
    """See `_HELP`."""
    directories = tuple(path.absolute() for path in directories)
    _check(directories)
    try:
        node_id = node_id_of(directories)
        sources = _sources(directories, configs_file, zookeeper, metadata_log)
        found = find_partitions(directories)
        stored = stored_metadata(directories[0])
        if not quick:
            _read_all(found)
        plans = plan_topics(found.partitions, sources, stored.topics, read_configuration(None, ()))
        if yes and plans:
            _reject_duplicates(plans)
            transfer(directories, plans, node_id)
    except (UnreadableSource, LogDirectoryUnusable, StorageFailed, OSError) as error:
        raise WrongConfiguration([str(error)]) from error
    if as_json:
        click.echo(json.dumps(report.as_json(plans, sources, found.set_aside, is_done=yes)))
    else:
        _print(directories, plans, sources, found, node_id, is_done=yes)
    if any(plan.problems for plan in plans):
        sys.exit(_PROBLEMS)


def _check(directories: tuple[Path, ...]) -> None:
    wrong = [f"{path} is not a directory" for path in directories if not os.path.isdir(path)]
    if len(set(directories)) < len(directories):
        wrong.append("a directory is named twice")
    if wrong:
        raise WrongConfiguration(wrong)


def _sources(
    directories: tuple[Path, ...], configs_file: Path | None, zookeeper: str | None, metadata_log: Path | None
) -> list[ForeignCluster]:
    """The sources, in order of precedence."""
    sources = []
    if configs_file is not None:
        sources.append(read_configs_file(configs_file))
    if zookeeper is not None:
        sources.append(read_zookeeper(zookeeper))
    if metadata_log is not None:
        sources.append(read_kraft_metadata(metadata_log))
    sources += [read_kraft_metadata(path / DIRECTORY) for path in directories if (path / DIRECTORY).is_dir()]
    return sources


def _read_all(found: FoundLogs) -> None:
    total = sum(path.stat().st_size for each in found.partitions for _, path in each.logs)
    if not sys.stderr.isatty():
        for partition in found.partitions:
            read_records(partition, lambda _: None)
        return
    with click.progressbar(length=total, label="Reading", file=sys.stderr) as bar:
        for partition in found.partitions:
            read_records(partition, bar.update)


def _reject_duplicates(plans: list[TopicPlan]) -> None:
    times = Counter(each.name for plan in plans for each in plan.found)
    wrong = [f"{name} is in {count} of the directories" for name, count in times.items() if count > 1]
    if wrong:
        raise WrongConfiguration(wrong)


def _print(
    directories: tuple[Path, ...],
    plans: list[TopicPlan],
    sources: list[ForeignCluster],
    found: FoundLogs,
    node_id: int,
    *,
    is_done: bool,
) -> None:
    for line in report.lines(plans, sources, found.set_aside):
        click.echo(line)
    log_dirs = ",".join(map(str, directories))
    if not plans:
        click.echo("These directories have no partitions.")
        return
    click.echo(_DEFAULTS)
    if is_done:
        click.echo(f"Done. Start kafkad with log.dirs={log_dirs} and broker.id={node_id}.")
    else:
        click.echo(
            "Nothing was changed. To apply, add --yes."
            f" Then start a broker with log.dirs={log_dirs} and broker.id={node_id}."
        )
