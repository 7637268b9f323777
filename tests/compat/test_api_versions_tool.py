"""kafka-broker-api-versions: every API that kafkad advertises has Apache Kafka's own range of versions."""

import re

from tests.compat.side_by_side import Tools

_LINE = re.compile(r"\t(\w+)\((\d+)\): (.+?) ?(?:\[usable: \d+\])?,?$")

# What Apache Kafka 4.3 has and kafkad has not yet, by what it belongs to.
_SECURITY = (
    "SaslHandshake SaslAuthenticate DescribeAcls CreateAcls DeleteAcls CreateDelegationToken RenewDelegationToken"
    " ExpireDelegationToken DescribeDelegationToken DescribeUserScramCredentials AlterUserScramCredentials"
)
_QUOTAS = "DescribeClientQuotas AlterClientQuotas"
_CLUSTER = "DescribeQuorum UnregisterBroker AddRaftVoter RemoveRaftVoter"
_SHARE_AND_STREAMS = (
    "ShareGroupHeartbeat ShareGroupDescribe ShareFetch ShareAcknowledge InitializeShareGroupState"
    " ReadShareGroupState WriteShareGroupState DeleteShareGroupState ReadShareGroupStateSummary"
    " StreamsGroupHeartbeat StreamsGroupDescribe DescribeShareGroupOffsets AlterShareGroupOffsets"
    " DeleteShareGroupOffsets"
)
_NOT_YET = frozenset(" ".join((_SECURITY, _QUOTAS, _CLUSTER, _SHARE_AND_STREAMS)).split())


def _ranges(printed: str) -> dict[str, str]:
    found = (_LINE.match(line) for line in printed.splitlines())
    return {match[1]: match[3] for match in found if match and match[3] != "UNSUPPORTED"}


def test_each_api_has_the_versions_of_apache_kafka(tools: Tools) -> None:
    ours, theirs = (_ranges(printed.out) for printed in tools.both("kafka-broker-api-versions"))
    assert ours == {name: versions for name, versions in theirs.items() if name in ours}


def test_only_the_apis_listed_here_are_not_there_yet(tools: Tools) -> None:
    ours, theirs = (_ranges(printed.out) for printed in tools.both("kafka-broker-api-versions"))
    assert theirs.keys() - ours.keys() == _NOT_YET


def test_the_broker_itself_is_shown_as_on_apache_kafka(tools: Tools) -> None:
    ours, theirs = (printed.out.splitlines()[0] for printed in tools.both("kafka-broker-api-versions"))
    assert ours == theirs
