"""Findings of the guards: in old records there are none, in MLflow they are tags, figures and lines of the note."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from builders import measurement, spec, study_result, trial

from autotune.domain.finding import Effect, Finding, ServerWindow
from autotune.domain.trial import TrialResult
from autotune.errors import RunFolderError
from autotune.recording import RunFolder
from autotune.recording.codec import decode_trial, encode_trial
from autotune.recording.run_content import NOTE_TAG, RunContent, trial_content

EAGER = Finding("eager_steps", Effect.MARK, "31% ran without a graph", 10, {"eager_share": 0.31})
QUEUE = Finding("queue", Effect.MARK, "7 waited", 10)
TEXT = Finding("text", Effect.VOID, "other text", None)


def content(folder: Path, result: TrialResult) -> RunContent:
    return trial_content(result, study_result(result), RunFolder.create(folder, spec(), "", simulated=False))


def test_a_record_from_before_the_guards_is_read_with_its_alarms() -> None:
    seen = trial(0, measurements=(measurement(10, remarks=("ALARM: accept length 1.00", "a remark")),))
    data = json.loads(json.dumps(encode_trial(seen)))
    del data["findings"]
    for field in ("findings", "server", "looping_share", "answer_tokens"):
        del data["measurements"][0][field]
    read = decode_trial(data)
    assert read == seen
    assert read.measurements[0].alarms == ("accept length 1.00",)
    assert read.every_finding == ()


def test_an_effect_that_is_none_is_refused_with_its_place() -> None:
    data = json.loads(json.dumps(encode_trial(trial(0, findings=(TEXT,)))))
    data["findings"][0]["effect"] = "ignore"
    with pytest.raises(RunFolderError, match=r"findings\[0\].effect must be one of void, alarm, mark"):
        decode_trial(data)


def test_tags_name_the_guards_with_their_levels_by_effect(tmp_path: Path) -> None:
    result = trial(0, measurements=(measurement(1), measurement(10, findings=(EAGER, QUEUE))), findings=(TEXT,))
    tags = content(tmp_path, result).tags
    assert tags["findings.mark"] == "eager_steps@10, queue@10"
    assert tags["findings.void"] == "text"
    assert "findings.alarm" not in tags
    assert "- mark eager_steps, level 10: 31% ran without a graph" in tags[NOTE_TAG]
    assert "- void text: other text" in tags[NOTE_TAG]


def test_a_trial_that_nothing_speaks_against_has_no_such_tag(tmp_path: Path) -> None:
    assert [name for name in content(tmp_path, trial(0)).tags if name.startswith("findings")] == []


def test_what_the_servers_log_says_is_a_metric_at_its_level_and_what_it_does_not_say_is_none(tmp_path: Path) -> None:
    said = ServerWindow(20, 9.5, 10.0, None, 0.31, None)
    result = trial(0, measurements=(measurement(1), measurement(10, server=said, looping_share=0.0)))
    metrics = {(name, step): value for name, value, step in content(tmp_path, result).metrics}
    assert metrics["eager_share", 10] == 0.31
    assert metrics["server_running", 10] == 9.5
    assert metrics["looping_share", 10] == 0.0
    assert ("eager_share", 1) not in metrics
    assert ("server_queued", 10) not in metrics
