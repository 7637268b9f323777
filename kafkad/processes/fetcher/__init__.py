"""The fetcher process: fetches from leaders on other brokers; the owners of the logs append. See `loop`."""

from kafkad.processes.fetcher.loop import FetcherProcess
from kafkad.processes.runtime.child import ChildContext


def main(context: ChildContext) -> None:
    """One incarnation of a fetcher process."""
    FetcherProcess(context).run()
