"""Optuna's journal file: a mirror of what was launched, which survives kills and never costs a trial."""

from __future__ import annotations

import json
from pathlib import Path

import optuna
import pytest
from made_up_node import BASELINE, KNOWN_GOOD, SPECULATION, Node, ledger_of, result, run, spec_of
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from autotune.domain import trial as words
from autotune.domain.trial import TrialRequest
from autotune.study import StudyEvent
from autotune.study.journal import open_journal


def load(folder: Path) -> optuna.Study:
    storage = JournalStorage(JournalFileBackend(str(folder / "journal.log")))
    return optuna.load_study(study_name="made-up", storage=storage)


def trials(folder: Path) -> list[FrozenTrial]:
    return load(folder).trials


def told(folder: Path) -> list[tuple[object, TrialState, float | None]]:
    return [(trial.user_attrs.get("number"), trial.state, trial.value) for trial in trials(folder)]


def notes(events: list[StudyEvent]) -> list[str]:
    return [event.text for event in events if event.kind == "note"]


def test_each_launched_trial_is_in_the_journal_with_state_value_constraint_and_attributes(tmp_path: Path) -> None:
    states = {2: words.TrialState.INFEASIBLE, 3: words.TrialState.FAILED}
    node = Node(failures=lambda request: states.get(request.number))
    run(spec_of(trials=5), node, tmp_path)
    found = trials(tmp_path)
    assert [trial.state.name for trial in found] == ["COMPLETE", "COMPLETE", "PRUNED", "FAIL", "COMPLETE"]
    assert [trial.constraints for trial in found] == [
        {"launches": -1.0}, {"launches": -1.0}, {"launches": 1.0}, {}, {"launches": -1.0},
    ]  # fmt: skip
    assert found[0].value == pytest.approx(50.0)
    assert found[1].params == dict(KNOWN_GOOD)
    assert found[1].user_attrs == {
        "number": 1,
        "origin": "known_good",
        "digest": KNOWN_GOOD.digest,
        "configuration": KNOWN_GOOD.canonical,
    }


def test_the_trial_that_runs_is_shown_as_running(tmp_path: Path) -> None:
    seen: list[str] = []

    def look(_request: TrialRequest) -> None:
        seen.append(trials(tmp_path)[-1].state.name)

    run(spec_of(trials=2), Node(failures=look), tmp_path)
    assert seen == ["RUNNING", "RUNNING"]


def test_what_the_space_cannot_express_is_entered_without_parameters(tmp_path: Path) -> None:
    baseline = BASELINE.replace(graph=100)
    run(spec_of(baseline=baseline, trials=1), Node(), tmp_path)
    (found,) = trials(tmp_path)
    assert found.params == {}
    assert json.loads(found.user_attrs["configuration"])["graph"] == 100


def test_trials_left_running_by_a_kill_are_told_off_when_the_study_is_opened_next(tmp_path: Path) -> None:
    node = Node()
    run(spec_of(trials=2), node, tmp_path)
    study = load(tmp_path)
    study.enqueue_trial({}, user_attrs={"number": 2})
    study.ask()
    study.enqueue_trial({}, user_attrs={"number": 2})
    assert [trial.state.name for trial in trials(tmp_path)][2:] == ["RUNNING", "WAITING"]
    run(spec_of(trials=3), node, tmp_path)
    assert [trial.state.name for trial in trials(tmp_path)] == ["COMPLETE", "COMPLETE", "FAIL", "FAIL", "COMPLETE"]


def test_a_trial_that_was_recorded_and_not_told_is_caught_up(tmp_path: Path) -> None:
    node = Node()
    run(spec_of(trials=2), node, tmp_path)
    node.evaluate(TrialRequest(2, BASELINE.replace(graph=256), words.Origin.GREEDY))
    events: list[StudyEvent] = []
    run(spec_of(trials=3), node, tmp_path, events=events)
    assert told(tmp_path)[2] == (2, TrialState.COMPLETE, pytest.approx(55.0))
    assert not notes(events)


def test_an_interrupted_trial_is_fail_in_the_journal(tmp_path: Path) -> None:
    def interrupt(request: TrialRequest) -> None:
        if request.number == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec_of(), Node(failures=interrupt), tmp_path)
    assert [trial.state.name for trial in trials(tmp_path)] == ["COMPLETE", "FAIL"]


def test_a_missing_journal_is_made_from_the_recorded_trials(tmp_path: Path) -> None:
    node = Node()
    run(spec_of(trials=4), node, tmp_path)
    before = told(tmp_path)
    (tmp_path / "journal.log").unlink()
    run(spec_of(trials=4), node, tmp_path)
    assert told(tmp_path) == before


def test_a_journal_that_contradicts_the_recorded_trials_is_set_aside_and_made_anew(tmp_path: Path) -> None:
    run(spec_of(trials=4), Node(score=lambda _configuration: 1.0), tmp_path)
    other = Node()
    events: list[StudyEvent] = []
    for number, configuration in enumerate([BASELINE, KNOWN_GOOD]):
        other.evaluate(TrialRequest(number, configuration, words.Origin.BASELINE))
    run(spec_of(trials=2), other, tmp_path, events=events)
    assert [number for number, _state, _value in told(tmp_path)] == [0, 1]
    assert "contradicts the recorded trials" in notes(events)[0]
    assert (tmp_path / "journal.log.old").exists()


@pytest.mark.parametrize("damage", [b"not json\n{}\n", b"{}\n", b"\xff\xfe\n\n", b'{"op_code":4,"trial_id":7}\n'])
def test_a_journal_that_cannot_be_read_is_set_aside_and_made_anew(tmp_path: Path, damage: bytes) -> None:
    node = Node()
    run(spec_of(trials=2), node, tmp_path)
    (tmp_path / "journal.log").write_bytes(damage)
    events: list[StudyEvent] = []
    run(spec_of(trials=3), node, tmp_path, events=events)
    assert len(told(tmp_path)) == 3
    assert "cannot be read" in notes(events)[0]
    assert (tmp_path / "journal.log.old").read_bytes() == damage


def test_a_last_line_torn_by_a_kill_and_a_lock_left_behind_do_no_harm(tmp_path: Path) -> None:
    node = Node()
    run(spec_of(trials=2), node, tmp_path)
    with (tmp_path / "journal.log").open("ab") as file:
        file.write(b'{"op_code":8,"worker')
    (tmp_path / "journal.log.lock").symlink_to(tmp_path / "journal.log")
    events: list[StudyEvent] = []
    run(spec_of(trials=3), node, tmp_path, events=events)
    assert len(told(tmp_path)) == 3
    assert not notes(events)


def test_a_journal_that_cannot_be_written_costs_a_note_and_no_trial(tmp_path: Path) -> None:
    (tmp_path / "journal.log").mkdir()
    node = Node()
    events: list[StudyEvent] = []
    assert run(spec_of(trials=3), node, tmp_path, events=events) == "3 trials, as the budget asks"
    assert len(notes(events)) == 1
    assert "it is caught up when the study is resumed" in notes(events)[0]
    (tmp_path / "journal.log").rmdir()
    run(spec_of(trials=4), node, tmp_path)
    assert len(told(tmp_path)) == 4


def test_a_journal_with_other_values_than_the_recorded_ones_is_made_anew(tmp_path: Path) -> None:
    ledger = ledger_of(SPECULATION, [result(0, BASELINE, 1.25)])
    noted: list[str] = []
    with open_journal(tmp_path / "journal.log", "made-up", ledger, noted.append):
        pass
    rescored = ledger_of(SPECULATION, [result(0, BASELINE, 1.5)])
    with open_journal(tmp_path / "journal.log", "made-up", rescored, noted.append):
        pass
    assert told(tmp_path) == [(0, TrialState.COMPLETE, 1.5)]
    assert len(noted) == 1
