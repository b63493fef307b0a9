import json

import pytest

from autotune.simulated_node.setting import VARIABLE, NodeSetting, read_setting


def read(value):
    return read_setting({VARIABLE: value if isinstance(value, str) else json.dumps(value)})


def test_nothing_given_is_the_fitted_node():
    assert read_setting({}) == NodeSetting()
    assert NodeSetting().node.name == "rtx-pro-6000-x8"


def test_values_are_taken():
    setting = read({"name": "nvlink-x8", "speed": 20, "noise": 0, "faults": {"die_after_requests": 3, "orphan": True}})
    assert (setting.name, setting.speed, setting.noise) == ("nvlink-x8", 20, 0)
    assert (setting.faults.die_after_requests, setting.faults.orphan) == (3, True)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{speed: 3}", "not JSON"),
        ("[1]", "must be a JSON object"),
        ({"sped": 3}, "'sped'"),
        ({"faults": {"die": 3}}, "'die'"),
        ({"speed": "fast"}, "speed must be float"),
        ({"speed": 0}, "speed must be above 0"),
        ({"seed": True}, "seed must be int"),
        ({"name": "dgx"}, "no simulated node is called 'dgx'"),
        ({"noise": 2}, "noise must be in"),
        ({"faults": {"error_rate": 1.5}}, "error_rate"),
        ({"faults": {"die_at_start": "boredom"}}, "die_at_start"),
        ({"faults": []}, "faults must be a JSON object"),
    ],
)
def test_what_is_not_understood_is_refused(value, said):
    with pytest.raises(ValueError, match=said):
        read(value)
