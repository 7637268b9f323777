"""A topic config of a plugin is checked when it is registered, and its validator can't hurt the broker."""

import pytest

from kafkad.core.settings.limits import Between
from kafkad.core.settings.option import InvalidSetting, SettingType
from kafkad.core.settings.topic_config import TopicConfig, problem_of, setting_of
from kafkad.core.settings.values import Value


def config(
    name: str = "kafkad.plugin.keep",
    type: SettingType = SettingType.INT,
    default: Value = 3,
    documentation: str = "How many.",
) -> TopicConfig:
    limits = Between(1, 9) if type is SettingType.INT else None
    return TopicConfig(name=name, type=type, default=default, documentation=documentation, validator=limits)


@pytest.mark.parametrize(
    ("type", "default"),
    [
        (SettingType.INT, 3),
        (SettingType.INT, None),
        (SettingType.STRING, "a b"),
        (SettingType.LIST, ("a", "b")),
        (SettingType.LIST, ()),
        (SettingType.DOUBLE, 1.5),
        (SettingType.BOOLEAN, False),
    ],
)
def test_every_type_has_defaults(type: SettingType, default: Value) -> None:
    assert problem_of(config(type=type, default=default)) is None


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (config(name="retention.ms"), "begins with kafkad.plugin."),
        (config(name="kafkad.plugin."), "begins with kafkad.plugin."),
        (config(name="kafkad.plugin.keep=3"), "begins with kafkad.plugin."),
        (config(default="three"), "Not a number of type INT"),
        (config(default="3"), "the default '3' is no INT, expected 3"),
        (config(default=10), "Value must be no more than 9"),
        (config(documentation=""), "a sentence"),
        (config(type="int"), "expected a SettingType, found 'int'"),  # type: ignore[arg-type]
    ],
)
def test_what_can_t_be_registered_is_told(wrong: TopicConfig, problem: str) -> None:
    assert problem in (problem_of(wrong) or "")


class Careless:
    def __init__(self, answer: object = None) -> None:
        self.answer = answer

    def problem(self, value: Value) -> tuple[str, str] | None:
        if self.answer is None:
            raise ZeroDivisionError("oh")
        return self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(("answer", "said"), [(None, r"ZeroDivisionError\('oh'\)"), (7, "TypeError")])
def test_a_validator_that_fails_refuses_the_value(answer: object, said: str) -> None:
    careless = TopicConfig(
        name="kafkad.plugin.x",
        type=SettingType.STRING,
        default=None,
        documentation="X.",
        validator=Careless(answer),
    )
    with pytest.raises(InvalidSetting, match=f"kafkad.plugin.x: the plugin's validator failed: {said}"):
        setting_of(careless).parse("a")
