"""What can't be exported, in one line for people."""


class ExportFailed(Exception):
    """The export stops; what was committed before stays."""


class DataLost(ExportFailed):
    """Records that the table does not have are no longer in the log: `--on-data-loss skip` goes on behind them."""


class AnotherExport(ExportFailed):
    """Somebody else has committed to the table since this export looked at it."""


class NotInstalled(ExportFailed):
    """An optional package is missing."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(f"{module} is not installed: pip install 'kafkad[{extra}]'")
