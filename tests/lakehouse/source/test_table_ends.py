"""Where tables of `kafkad export` end for a query whose checkpoint was lost."""

import pytest

from kafkad_lakehouse.export.ranges import Bounds, TopicFacts
from kafkad_lakehouse.export.request import ExportRequest
from kafkad_lakehouse.export.tables import open_sink
from kafkad_lakehouse.source.table_ends import ends_of_table
from tests.lakehouse.export.object_store import object_store, settings
from tests.lakehouse.export.sinks.test_sinks import TOPIC, commit_of


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_table_in_an_object_store_says_where_it_ends(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run asks what the store can do, and leaves an object, before it knows where the table ends."""
    out = "s3a://lake/orders"
    facts = {"t": TopicFacts("c", "t", TOPIC, {0: Bounds(0, 20)})}
    with object_store() as port:
        for name, value in settings(port).items():
            monkeypatch.setenv(name, value)
        sink = open_sink(ExportRequest(topic="t", out=out, name="t", bootstrap="", format=kind))
        state = sink.state([0])
        sink.check_store()
        assert ends_of_table(out, facts) == {}
        sink.commit(state, commit_of(3, 10))
        assert ends_of_table(out, facts) == {("t", 0): 10}
