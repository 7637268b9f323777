"""The process that follows leaders on other brokers: it fetches, the owners of the logs append. See `loop`."""

from kafkad.processes.fetcher.loop import FetcherProcess
from kafkad.processes.runtime.child import ChildContext


def main(context: ChildContext) -> None:
    """One incarnation of a fetcher process."""
    FetcherProcess(context).run()
