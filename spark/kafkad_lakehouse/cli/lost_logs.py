"""`kafkad export maintain --rebuild-log`: rebuild the lost logs of a Parquet table and its dead letters."""

import json

import click

from kafkad.cli.errors import WrongConfiguration
from kafkad_lakehouse.export.dead_letters import folder_of_dead_letters
from kafkad_lakehouse.export.problems import ExportFailed
from kafkad_lakehouse.export.request import ExportRequest
from kafkad_lakehouse.export.sinks.rebuilding import has_lost_log, rebuild_log
from kafkad_lakehouse.export.table_folder import TableFolder


def rebuild_logs(request: ExportRequest, *, is_dry_run: bool, as_json: bool) -> None:
    """Rebuild the missing logs. Raises `ExportFailed`."""
    if request.format != "parquet" or is_dry_run:
        raise WrongConfiguration(["--rebuild-log needs --format parquet and excludes --dry-run"])
    folders = [TableFolder(out) for out in (request.out, folder_of_dead_letters(request.out))]
    lost = [folder for folder in folders if has_lost_log(folder)]
    if not lost:
        raise ExportFailed(f"{request.out}: there are no files for a new log, or the log exists")
    rebuilt = [rebuild_log(folder, request.topic) for folder in lost]
    if as_json:
        rows = []
        for each in rebuilt:
            ranges, empty = ([one._asdict() for one in some] for some in (each.ranges, each.empty))
            rows.append({**each._asdict(), "ranges": ranges, "empty": empty})
        click.echo(json.dumps(rows))
        return
    for each in rebuilt:
        click.echo(
            f"{each.out}: {each.files} files are in the new log; kafkad export verify compares them with the topic"
        )
        for whole in each.ranges:
            click.echo(f"{request.topic}-{whole.partition}: offsets {whole.start} to {whole.end - 1}")
        for gap in each.empty:
            click.echo(f"{request.topic}-{gap.partition}: offsets {gap.start} to {gap.end - 1} are in no file")
        for path in each.left_out:
            click.echo(f"{path} is not used: a larger file has its records")
