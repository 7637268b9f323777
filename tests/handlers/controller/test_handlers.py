"""The controller's APIs over encoded bytes, each in every version that the API table names."""

import dataclasses
from datetime import timedelta
from importlib import import_module
from io import BytesIO
from typing import Any
from uuid import UUID

import pytest
from kio.serial import entity_reader, entity_writer

from kafkad.config import load
from kafkad.core.controller.producer_ids import ProducerIdControlManager
from kafkad.core.errors import ErrorCode
from kafkad.core.request_context import RequestContext
from kafkad.handlers.controller.alter_replica_log_dirs import move_replicas
from kafkad.handlers.controller.requests.apis_of_controller import DISPATCH, Handler
from kafkad.handlers.controller.requests.controller_view import ControllerView, Response, ResponseAfter
from kafkad.processes.controller.tables import LiveTables
from kafkad.wire.api_table import APIS
from kafkad.wire.primitives import MalformedRequest
from tests.contexts import a_context
from tests.core.controller.world import BROKER_ID, World

NAMES = {
    19: "create_topics",
    20: "delete_topics",
    22: "init_producer_id",
    32: "describe_configs",
    33: "alter_configs",
    34: "alter_replica_log_dirs",
    37: "create_partitions",
    45: "alter_partition_reassignments",
    46: "list_partition_reassignments",
    43: "elect_leaders",
    44: "incremental_alter_configs",
    57: "update_features",
    74: "list_config_resources",
}
SECOND = timedelta(seconds=1)
LOG_DIRS = "/one", "/two"
MOVES = 34
"""AlterReplicaLogDirs is handled by each broker for its own replicas."""
TOPIC, BROKER, LOGGER = 2, 4, 8


def versions(*keys: int) -> list[tuple[int, int]]:
    served = ((key, APIS[key]) for key in keys)
    return [(key, version) for key, api in served for version in range(api.min_version, api.max_version + 1)]


class Client:
    """Speaks kio on the client's side of the handlers."""

    def __init__(self) -> None:
        self.world = World()
        self.world.start()
        self.view = ControllerView(
            controller=self.world.controller,
            configs=LiveTables(
                load(None, [("node.id", str(BROKER_ID))], cores=2, environ={}, is_root=False), frozenset(), {}
            ),
            random_source=self.world.random_source,
            producer_ids=ProducerIdControlManager(self.world.store, BROKER_ID),
        )
        self.handlers: dict[int, Handler] = {**DISPATCH, MOVES: self._move}
        self.waited: ResponseAfter | None = None

    def _move(self, body: memoryview, context: RequestContext, _view: ControllerView) -> Response:
        return move_replicas(body, context, self.world.hosting, LOG_DIRS, ())

    def message(self, key: int, version: int, name: str, /, **values: Any) -> Any:
        message = getattr(import_module(f"kio.schema.{NAMES[key]}.v{version}.request"), name)
        fields = {field.name for field in dataclasses.fields(message)}
        return message(**{field: value for field, value in values.items() if field in fields})

    def send(self, key: int, version: int, **values: Any) -> Any:
        prefix = "".join(part.capitalize() for part in NAMES[key].split("_"))
        request = self.message(key, version, f"{prefix}Request", **values)
        buffer = BytesIO()
        entity_writer(type(request))(buffer, request)
        answer = self.handlers[key](memoryview(buffer.getvalue()), a_context(version), self.view)
        self.world.deliver()
        self.waited = answer if isinstance(answer, ResponseAfter) else None
        body = answer.body if isinstance(answer, ResponseAfter) else answer
        response_type = getattr(import_module(f"kio.schema.{NAMES[key]}.v{version}.response"), f"{prefix}Response")
        response, size = entity_reader(response_type)(body, 0)
        assert size == len(body)
        return response

    def create(self, *names: str, version: int = 7, validate_only: bool = False, **values: Any) -> Any:
        defaults = {"num_partitions": 1, "replication_factor": 1, "assignments": (), "configs": ()}
        topics = tuple(self.message(19, version, "CreatableTopic", name=n, **{**defaults, **values}) for n in names)
        return self.send(19, version, topics=topics, timeout=SECOND, validate_only=validate_only).topics

    def config(self, version: int, name: str, value: str | None) -> Any:
        return self.message(19, version, "CreatableTopicConfig", name=name, value=value)

    def describe(self, kind: int, name: str, *, version: int = 4, keys: tuple[str, ...] | None = None) -> Any:
        resource = self.message(
            32, version, "DescribeConfigsResource", resource_type=kind, resource_name=name, configuration_keys=keys
        )
        values = {"include_synonyms": True, "include_documentation": True} if version >= 3 else {}
        values = values or {"include_synonyms": True}
        (result,) = self.send(32, version, resources=(resource,), **values).results
        return result

    def alter(self, kind: int, name: str, *entries: tuple[str, int, str | None], **flags: bool) -> Any:
        version = 1
        configs = tuple(
            self.message(44, version, "AlterableConfig", name=key, config_operation=operation, value=value)
            for key, operation, value in entries
        )
        resource = self.message(
            44, version, "AlterConfigsResource", resource_type=kind, resource_name=name, configs=configs
        )
        flags = {"validate_only": False, **flags}
        (result,) = self.send(44, version, resources=(resource,), **flags).responses
        return result


@pytest.fixture
def client() -> Client:
    return Client()


def code(result: Any) -> ErrorCode:
    return ErrorCode(int(result.error_code))


def test_every_controller_api_of_the_table_has_a_handler() -> None:
    assert {*DISPATCH, MOVES} == set(NAMES)
    assert {key for key, api in APIS.items() if api.runs.name == "CONTROLLER"} == set(NAMES)


@pytest.mark.parametrize(("key", "version"), versions(*NAMES))
def test_a_request_cut_short_or_that_claims_too_much_is_malformed(client: Client, key: int, version: int) -> None:
    is_flexible = version >= APIS[key].flexible_from
    cut_short = b"\x02" if is_flexible else b"\x00\x00\x00\x01\x00"
    too_many = b"\xff\xff\xff\xff\x07" if is_flexible else b"\x7f\xff\xff\xff"
    for body in (b"", cut_short, too_many + bytes(100)):
        with pytest.raises(MalformedRequest):
            client.handlers[key](memoryview(body), a_context(version), client.view)


@pytest.mark.parametrize(("_", "version"), versions(19))
def test_create_topics_answers_all_that_its_version_has(client: Client, _: int, version: int) -> None:
    config = client.config(version, "retention.ms", "5000")
    (result,) = client.create("t", version=version, num_partitions=3, configs=(config,))
    assert (result.name, code(result), result.error_message) == ("t", ErrorCode.NONE, None)
    topic = client.world.controller.image.topics["t"]
    assert client.waited is not None
    assert client.waited.timeout_ms == 1000
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        configs = {each.name: each for each in result.configs}
        assert list(configs) == sorted(configs)
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("5000", 1)
        assert configs["segment.bytes"].config_source == 5
    if version >= 7:
        assert result.topic_id == topic.id


def test_create_topics_refuses_each_topic_on_its_own_and_says_why(client: Client) -> None:
    client.create("there", "a.b")
    assert [code(each) for each in client.create("there", "new", "new", "fine")] == [
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]
    messages = {each.name: each.error_message for each in client.create("a_b", "there", "__cluster_metadata", "x y")}
    assert messages == {
        "a_b": "Topic 'a_b' collides with existing topic: a.b",
        "there": "Topic 'there' already exists.",
        "__cluster_metadata": "Creation of internal topic __cluster_metadata is prohibited.",
        "x y": "Topic name is invalid: 'x y' contains one or more characters other than ASCII alphanumerics, "
        "'.', '_' and '-'",
    }
    assert client.waited is None, "nothing changed, nobody has to wait"


@pytest.mark.parametrize(
    ("values", "expected", "message"),
    [
        ({"replication_factor": 3}, ErrorCode.INVALID_REPLICATION_FACTOR, "only 1 broker(s) are registered."),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR, "must be larger than 0, or -1"),
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS, "invalid non-positive value"),
        ({"num_partitions": 10_001}, ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions"),
    ],
)
def test_create_topics_explains_bad_numbers(
    client: Client, values: dict[str, Any], expected: ErrorCode, message: str
) -> None:
    (result,) = client.create("t", **values)
    assert code(result) is expected
    assert message in result.error_message
    assert "t" not in client.world.controller.image.topics


def test_create_topics_checks_configs(client: Client) -> None:
    for name, value, message in (
        ("nonsense", "1", "Unknown topic config name: nonsense"),
        ("retention.ms", "soon", "Invalid value soon for configuration retention.ms"),
        ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
    ):
        (result,) = client.create("t", configs=(client.config(7, name, value),))
        assert code(result) is ErrorCode.INVALID_CONFIG
        assert message in result.error_message


def test_create_topics_with_a_manual_assignment(client: Client) -> None:
    def assignment(index: int, *brokers: int) -> Any:
        return client.message(19, 7, "CreatableReplicaAssignment", partition_index=index, broker_ids=brokers)

    manual: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}
    (result,) = client.create("t", **manual, assignments=(assignment(1, 1), assignment(0, 1)))
    assert (code(result), result.num_partitions) == (ErrorCode.NONE, 2)
    (result,) = client.create("u", **manual, assignments=(assignment(1, 1),))
    assert result.error_message == "partitions should be a consecutive 0-based integer sequence"
    (result,) = client.create("u", **manual, assignments=(assignment(0, 9),))
    assert code(result) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    (result,) = client.create("u", num_partitions=1, replication_factor=-1, assignments=(assignment(0, 1),))
    assert code(result) is ErrorCode.INVALID_REQUEST


def test_validate_only_shows_the_topic_and_makes_nothing(client: Client) -> None:
    (result,) = client.create("t", num_partitions=-1, replication_factor=-1, validate_only=True)
    assert (code(result), result.num_partitions, result.replication_factor) == (ErrorCode.NONE, 1, 1)
    assert not client.world.controller.image.topics
    assert client.waited is None


@pytest.mark.parametrize(("_", "version"), versions(20))
def test_delete_topics_by_name(client: Client, _: int, version: int) -> None:
    client.create("t", "u")
    if version >= 6:
        states = [client.message(20, 6, "DeleteTopicState", name=name, topic_id=None) for name in ("t", "missing")]
        values: dict[str, Any] = {"topics": tuple(states)}
    else:
        values = {"topic_names": ("t", "missing")}
    results = client.send(20, version, timeout=SECOND, **values).responses
    assert {each.name: code(each) for each in results} == {
        "t": ErrorCode.NONE,
        "missing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert set(client.world.controller.image.topics) == {"u"}
    assert client.waited is not None


def test_delete_topics_by_id_and_its_mistakes(client: Client) -> None:
    (created,) = client.create("t")
    known, unknown, twice = created.topic_id, UUID(int=77), UUID(int=78)

    def state(name: str | None, topic_id: UUID | None) -> Any:
        return client.message(20, 6, "DeleteTopicState", name=name, topic_id=topic_id)

    wrong = (state(None, None), state("t", known), state(None, unknown), state(None, twice), state(None, twice))
    results = client.send(20, 6, topics=wrong, timeout=SECOND).responses
    assert [(code(each), each.error_message) for each in results] == [
        (ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified."),
        (ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."),
        (ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."),
        (ErrorCode.INVALID_REQUEST, "Duplicate topic id."),
    ]
    both = (state("t", None), state(None, known))
    (result,) = client.send(20, 6, topics=both, timeout=SECOND).responses
    assert result.error_message == "The provided topic name maps to an ID that was already supplied."
    assert set(client.world.controller.image.topics) == {"t"}
    (result,) = client.send(20, 6, topics=(state(None, known),), timeout=SECOND).responses
    assert (result.name, result.topic_id, code(result)) == ("t", known, ErrorCode.NONE)


@pytest.mark.parametrize(("_", "version"), versions(37))
def test_partitions_are_added_and_never_taken_away(client: Client, _: int, version: int) -> None:
    client.create("t", num_partitions=2)

    def ask(name: str, count: int, assignments: Any = None, validate_only: bool = False) -> Any:
        topic = client.message(37, version, "CreatePartitionsTopic", name=name, count=count, assignments=assignments)
        (result,) = client.send(37, version, topics=(topic,), timeout=SECOND, validate_only=validate_only).results
        return result

    assert ask("t", 2).error_message == "Topic already has 2 partition(s)."
    assert code(ask("t", 1)) is ErrorCode.INVALID_PARTITIONS
    assert code(ask("missing", 3)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(ask("t", 4, assignments=())) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code(ask("t", 2**31 - 1, validate_only=True)) is ErrorCode.POLICY_VIOLATION
    assert code(ask("t", 10_003)) is ErrorCode.POLICY_VIOLATION
    assert code(ask("t", 4, validate_only=True)) is ErrorCode.NONE
    assert len(client.world.controller.image.topics["t"].partitions) == 2
    assert code(ask("t", 4)) is ErrorCode.NONE
    assert len(client.world.controller.image.topics["t"].partitions) == 4
    assert client.waited is not None


@pytest.mark.parametrize(("_", "version"), versions(32))
def test_describe_configs_of_topic_broker_and_loggers(client: Client, _: int, version: int) -> None:
    client.create("t", configs=(client.config(7, "retention.ms", "5000"),))
    topic = client.describe(TOPIC, "t", version=version, keys=("retention.ms",))
    (option,) = topic.configs
    assert (option.name, option.value, option.config_source, option.read_only) == ("retention.ms", "5000", 1, False)
    assert [client.describe(TOPIC, name, version=version).error_message for name in ("t", "missing")] == ["", ""]
    assert (option.synonyms[0].name, option.synonyms[0].source) == ("retention.ms", 1)
    if version >= 3:
        assert option.config_type == 5
        assert option.documentation
    assert len(client.describe(BROKER, "1", version=version).configs) > 200
    assert client.describe(BROKER, "", version=version).configs == ()
    assert [each.name for each in client.describe(LOGGER, "1", version=version).configs] == ["root"]


def test_describe_configs_describes_once_what_is_named_very_often(client: Client) -> None:
    """Twenty thousand times the same topic kept all other admin requests waiting for twenty seconds."""
    resource = client.message(
        32, 4, "DescribeConfigsResource", resource_type=TOPIC, resource_name="missing", configuration_keys=()
    )
    asked = {"include_synonyms": False, "include_documentation": False}
    assert len(client.send(32, 4, resources=(resource,) * 101, **asked).results) == 1
    assert len(client.send(32, 4, resources=(resource,) * 100, **asked).results) == 100


def test_describe_configs_explains_what_it_does_not_describe(client: Client) -> None:
    for kind, name, expected in (
        (TOPIC, "missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "x y", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (LOGGER, "", ErrorCode.INVALID_REQUEST),
        (99, "x", ErrorCode.INVALID_REQUEST),
    ):
        assert code(client.describe(kind, name)) is expected
    unexpected = client.describe(BROKER, "2").error_message
    assert unexpected == "Unexpected broker id, expected 1 or empty string, but received 2"


def test_incremental_alter_sets_deletes_appends_and_subtracts(client: Client) -> None:
    client.create("t")

    def configs() -> dict[str, str]:
        return client.world.controller.image.topics["t"].configs

    assert code(client.alter(TOPIC, "t", ("retention.ms", 0, "7"), ("cleanup.policy", 2, "compact"))) is ErrorCode.NONE
    assert client.waited is not None
    assert configs() == {"retention.ms": "7", "cleanup.policy": "delete,compact"}
    client.alter(TOPIC, "t", ("retention.ms", 1, None), ("cleanup.policy", 3, "delete"))
    assert configs() == {"cleanup.policy": "compact"}
    client.alter(TOPIC, "t", ("retention.ms", 0, "9"), validate_only=True)
    assert configs() == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("kind", "name", "entries", "expected", "message"),
    [
        (TOPIC, "t", [("nonsense", 0, "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: nonsense"),
        (TOPIC, "t", [("retention.ms", 2, "1")], ErrorCode.INVALID_CONFIG, "its type is not LIST"),
        (TOPIC, "t", [("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "Unknown operations type 9"),
        (TOPIC, "t", [("retention.ms", 0, None)], ErrorCode.INVALID_REQUEST, "Null value not supported for"),
        (TOPIC, "t", [("retention.ms", 0, "1")] * 2, ErrorCode.INVALID_REQUEST, "duplicate config keys"),
        (TOPIC, "u", [("retention.ms", 0, "1")], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'u' does not exist."),
        (TOPIC, "", [("retention.ms", 0, "1")], ErrorCode.INVALID_REQUEST, "Default topic resources"),
        (BROKER, "7", [("log.retention.ms", 0, "1")], ErrorCode.INVALID_REQUEST, "expected 1, but received 7"),
        (BROKER, "1", [("node.id", 0, "5")], ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically"),
        (LOGGER, "1", [("root", 0, "DEBUG")], ErrorCode.INVALID_REQUEST, "Unknown resource type 8"),
    ],
)
def test_incremental_alter_refuses(
    client: Client,
    kind: int,
    name: str,
    entries: list[tuple[str, int, str | None]],
    expected: ErrorCode,
    message: str,
) -> None:
    client.create("t")
    result = client.alter(kind, name, *entries)
    assert code(result) is expected
    assert message in result.error_message
    assert client.world.controller.image.topics["t"].configs == {}


def test_broker_configs_are_kept_for_one_and_for_all(client: Client) -> None:
    client.alter(BROKER, "", ("log.retention.ms", 0, "5"))
    client.alter(BROKER, "1", ("log.retention.ms", 0, "6"))
    client.world.start()
    assert client.world.controller.image.broker_configs == {
        "": {"log.retention.ms": "5"},
        "1": {"log.retention.ms": "6"},
    }


def test_stored_change_that_nothing_applies_hinders_no_other_and_goes_with_it(client: Client) -> None:
    client.world.controller.set_broker_config("1", {"num.io.threads": "7", "log.retention.ms": "5"})
    assert code(client.alter(BROKER, "1", ("log.retention.ms", 0, "6"))) is ErrorCode.NONE
    assert client.world.controller.image.broker_configs["1"] == {"log.retention.ms": "6"}


@pytest.mark.parametrize(("_", "version"), versions(44))
def test_a_resource_named_twice_is_refused_twice(client: Client, _: int, version: int) -> None:
    client.create("t", "u")
    entry = client.message(44, version, "AlterableConfig", name="retention.ms", config_operation=0, value="1")

    def resource(name: str) -> Any:
        return client.message(
            44, version, "AlterConfigsResource", resource_type=TOPIC, resource_name=name, configs=(entry,)
        )

    resources = (resource("t"), resource("u"), resource("t"))
    results = client.send(44, version, resources=resources, validate_only=False).responses
    assert [code(each) for each in results] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
        ErrorCode.INVALID_REQUEST,
    ]


@pytest.mark.parametrize(("_", "version"), versions(33))
def test_legacy_alter_replaces_the_whole_configuration(client: Client, _: int, version: int) -> None:
    client.create("t", configs=(client.config(7, "retention.ms", "5000"),))
    entry = client.message(33, version, "AlterableConfig", name="segment.ms", value="100")
    resource = client.message(
        33, version, "AlterConfigsResource", resource_type=TOPIC, resource_name="t", configs=(entry,)
    )
    (result,) = client.send(33, version, resources=(resource,), validate_only=False).responses
    assert (code(result), result.resource_name) == (ErrorCode.NONE, "t")
    assert client.world.controller.image.topics["t"].configs == {"segment.ms": "100"}


@pytest.mark.parametrize(("_", "version"), versions(22))
def test_init_producer_id_gives_new_ids(client: Client, _: int, version: int) -> None:
    def ask() -> Any:
        return client.send(22, version, transactional_id=None, transaction_timeout=SECOND)

    first, second = ask(), ask()
    assert (code(first), first.producer_id, first.producer_epoch) == (ErrorCode.NONE, 0, 0)
    assert second.producer_id == 1


@pytest.mark.parametrize(("_", "version"), versions(57))
def test_update_features_changes_all_or_none(client: Client, _: int, version: int) -> None:
    def ask(*levels: tuple[str, int], **values: Any) -> Any:
        downgrade = {"upgrade_type": 2, "allow_downgrade": True}
        updates = tuple(
            client.message(57, version, "FeatureUpdateKey", feature=name, max_version_level=level, **downgrade)
            for name, level in levels
        )
        return client.send(57, version, timeout=SECOND, feature_updates=updates, **values)

    controller = client.world.controller
    before = {"transaction.version": 2, "group.version": 1}
    refused = ask(("transaction.version", 1), ("share.version", 1))
    assert code(refused) is ErrorCode.INVALID_UPDATE_VERSION
    assert "since the following feature had an error" in refused.error_message
    assert (controller.image.features, getattr(refused, "results", ())) == (before, ())
    if version >= 1:
        assert code(ask(("transaction.version", 1), validate_only=True)) is ErrorCode.NONE
        assert controller.image.features == before
    done = ask(("transaction.version", 1))
    assert code(done) is ErrorCode.NONE
    assert [(row.feature, code(row)) for row in getattr(done, "results", ())] == (
        [("transaction.version", ErrorCode.NONE)] if version <= 1 else []
    )
    assert controller.image.features == {**before, "transaction.version": 1}


def test_what_can_be_configured_is_listed(client: Client) -> None:
    client.create("listed")
    assert code(client.alter(32, "a/group", ("consumer.session.timeout.ms", 0, "50000"))) is ErrorCode.NONE
    client.alter(32, "reset", ("consumer.session.timeout.ms", 1, None))
    broker = str(BROKER_ID)
    for wanted, expected in (
        ((2,), {("listed", 2)}),
        ((32,), {("a/group", 32)}),
        ((), {("listed", 2), (broker, 4), (broker, 8), ("a/group", 32)}),
    ):
        response = client.send(74, 1, resource_types=wanted)
        assert {(each.resource_name, each.resource_type) for each in response.config_resources} == expected
    assert client.send(74, 0).config_resources == ()
    assert code(client.send(74, 1, resource_types=(77,))) is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("key", "version"), versions(34))
def test_alter_replica_log_dirs_answers_for_each_partition(client: Client, key: int, version: int) -> None:
    client.create("t", num_partitions=2)
    hosting = client.world.hosting
    here, paths = hosting.image.topics["t"].partitions[0].log_dir, LOG_DIRS

    def asked(path: str, topic: str, *partitions: int) -> Any:
        named = client.message(key, version, "AlterReplicaLogDirTopic", name=topic, partitions=partitions)
        return client.message(key, version, "AlterReplicaLogDir", path=path, topics=(named,))

    dirs = (asked(paths[1 - here], "t", 0), asked("/none", "t", 1), asked(paths[0], "absent", 0))

    response = client.send(key, version, dirs=dirs)
    codes = {
        (row.topic_name, each.partition_index): each.error_code.name
        for row in response.results
        for each in row.partitions
    }
    assert codes == {
        ("t", 0): "none",
        ("t", 1): "log_dir_not_found",
        ("absent", 0): "unknown_topic_or_partition",
    }
    assert hosting.image.topics["t"].partitions[0].future_dir == 1 - here
    assert client.waited is not None
    # Asked again: there is nothing to wait for.
    client.send(key, version, dirs=dirs)
    assert client.waited is None


@pytest.mark.parametrize(("key", "version"), versions(45))
def test_a_partition_keeps_the_replicas_that_it_has(client: Client, key: int, version: int) -> None:
    client.create("t", num_partitions=5)

    def asked(topic: str, index: int, replicas: tuple[int, ...] | None) -> Any:
        row = client.message(key, version, "ReassignablePartition", partition_index=index, replicas=replicas)
        return client.message(key, version, "ReassignableTopic", name=topic, partitions=(row,))

    topics = (
        asked("t", 0, (BROKER_ID,)),
        asked("t", 1, (BROKER_ID + 7,)),
        asked("t", 2, (BROKER_ID, BROKER_ID)),
        asked("t", 3, ()),
        asked("t", 4, None),
        asked("t", 5, (BROKER_ID,)),
        asked("absent", 0, (BROKER_ID,)),
    )
    answer = client.send(key, version, topics=topics, timeout=SECOND, allow_replication_factor_change=True)
    assert [row.partitions[0].error_code.name for row in answer.responses] == [
        "none",
        *["invalid_replica_assignment"] * 3,
        "no_reassignment_in_progress",
        *["unknown_topic_or_partition"] * 2,
    ]
    assert answer.error_code.name == "none"


def test_no_reassignment_is_under_way(client: Client) -> None:
    answer = client.send(46, 0, topics=None, timeout=SECOND)
    assert (answer.error_code.name, answer.topics) == ("none", ())


@pytest.mark.parametrize(("_", "version"), versions(43))
def test_the_only_broker_needs_no_election(client: Client, _: int, version: int) -> None:
    client.create("t")
    named = client.message(43, version, "TopicPartitions", topic="t", partitions=(0, 1))
    for kind in (0, 1) if version else (0,):
        values = {"election_type": kind, "timeout": SECOND}
        (topic,) = client.send(43, version, topic_partitions=(named,), **values).replica_election_results
        assert [code(each) for each in topic.partition_result] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert client.send(43, version, topic_partitions=None, **values).replica_election_results == ()
    assert client.waited is None


@pytest.mark.parametrize("version", [1, 2])
def test_an_election_of_a_kind_that_nobody_knows_is_refused(client: Client, version: int) -> None:
    response = client.send(43, version, election_type=2, topic_partitions=None, timeout=SECOND)
    assert code(response) is ErrorCode.INVALID_REQUEST
