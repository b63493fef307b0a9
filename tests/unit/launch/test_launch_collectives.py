import json

import pytest

from autotune.launch.collectives import MessageTime, read_answer

ROW = {"bytes": 8192, "median_us": 9.1, "p10_us": 8.9, "p90_us": 9.6, "repeats": 30}


def test_the_last_line_is_the_answer() -> None:
    said = {"ok": True, "ranks": 2, "versions": {"nccl": "2.28.9"}, "sizes": [ROW], "seconds": 12.0}
    found = read_answer("chatter\n" + json.dumps(said) + "\n")
    assert found.outcome == "measured"
    assert found.times == (MessageTime(8192, 9.1, 8.9, 9.6),)
    assert found.versions == {"nccl": "2.28.9"}


@pytest.mark.parametrize("kind", ["communication", "unavailable"])
def test_a_failure_keeps_its_kind_and_says_its_stage(kind: str) -> None:
    said = {"ok": False, "kind": kind, "stage": "all-reduce", "message": "hung", "seconds": 60.0}
    found = read_answer(json.dumps(said))
    assert (found.outcome, found.message) == (kind, "hung (stage: all-reduce)")
    assert found.times == ()


@pytest.mark.parametrize(
    ("stdout", "stderr", "shown"),
    [
        ("", "", "nothing"),
        ("", "Traceback\nModuleNotFoundError: No module named 'torch'\n", "torch"),
        ("{", "", "{"),
        ("[]", "", "[]"),
        ('{"ok": true}', "", "ok"),
        ('{"ok": true, "sizes": [{"bytes": null}], "versions": {}}', "", "null"),
        ('{"ok": false}', "", "false"),
    ],
)
def test_what_is_no_answer_teaches_nothing_of_the_setting(stdout: str, stderr: str, shown: str) -> None:
    found = read_answer(stdout, stderr)
    assert found.outcome == "unavailable"
    assert shown in found.message
