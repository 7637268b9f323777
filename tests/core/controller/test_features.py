"""Feature levels: which may be finalized, Apache Kafka's messages, and that levels survive the controller."""

import pytest

from kafkad.core.controller.features import FeatureUpdate, UpgradeType, first_levels, updated
from kafkad.core.errors import ErrorCode, KafkaError
from tests.core.controller.world import World

TV = "transaction.version"
GV = "group.version"


def refusal(*updates: FeatureUpdate, current: int = 2) -> str:
    with pytest.raises(KafkaError) as raised:
        updated({TV: current}, updates, 1)
    assert raised.value.code is ErrorCode.INVALID_UPDATE_VERSION
    return str(raised.value.message)


def test_a_new_cluster_begins_with_what_this_version_is_for() -> None:
    assert first_levels() == {TV: 2, GV: 1}


def test_levels_go_up_and_down_and_level_0_is_none() -> None:
    assert updated({TV: 1}, [FeatureUpdate(TV, 2)], 1) == {TV: 2}
    assert updated({}, [FeatureUpdate(TV, 1)], 1) == {TV: 1}
    assert updated({TV: 2}, [FeatureUpdate(TV, 0, UpgradeType.SAFE_DOWNGRADE)], 1) == {}
    assert updated({TV: 2}, [FeatureUpdate(TV, 1, UpgradeType.UNSAFE_DOWNGRADE)], 1) == {TV: 1}
    assert updated({TV: 2}, [FeatureUpdate(TV, 2)], 1) == {TV: 2}


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (FeatureUpdate(TV, 3), "Local controller 1 only supports versions 0-2"),
        (FeatureUpdate(TV, -1), "A feature version cannot be less than 0."),
        (FeatureUpdate("share.version", 1), "Local controller 1 does not support this feature."),
        (FeatureUpdate(TV, 1), "Can't downgrade the version of this feature without setting the upgrade type to "),
        (FeatureUpdate(TV, 1, 7), "The controller does not support the given upgrade type."),
        (FeatureUpdate(TV, 1, 0), "The controller does not support the given upgrade type."),
    ],
)
def test_refusals_are_in_apache_kafkas_words(update: FeatureUpdate, reason: str) -> None:
    text = refusal(update)
    assert text.startswith(f"Invalid update version {update.level} for feature {update.name}. {reason}")


def test_a_downgrade_to_something_newer_is_refused() -> None:
    text = refusal(FeatureUpdate(TV, 2, UpgradeType.SAFE_DOWNGRADE), current=1)
    assert text.endswith("Can't downgrade to a newer version.")


def test_one_refused_update_refuses_all() -> None:
    refusal(FeatureUpdate(TV, 2), FeatureUpdate("nobody.knows", 1))


def test_levels_and_their_epoch_outlive_the_controller() -> None:
    world = World()
    world.start()
    image = world.controller.image
    assert (image.features, image.features_epoch) == ({TV: 2, GV: 1}, 0)
    world.controller.set_features({TV: 1})
    world.controller.set_features({})
    assert (world.controller.image.features, world.controller.image.features_epoch) == ({}, 2)
    world.start()
    assert (world.controller.image.features, world.controller.image.features_epoch) == ({}, 2)
