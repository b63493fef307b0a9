"""The run folder: what is written is whole, what is damaged is named, what cannot be written stops the study."""

from __future__ import annotations

import errno
import json
import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from builders import command, spec, trial

from autotune.errors import RunFolderError, StudyStopped
from autotune.recording import RunFolder

NOON = datetime(2026, 1, 31, 12, 0, 0).astimezone()


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "runs", spec(), "study: kimi-eagle3\n", simulated=False, now=NOON)


def test_a_folder_is_named_by_study_and_time_and_holds_the_study_file(folder: RunFolder) -> None:
    assert folder.path.name == "kimi-eagle3-20260131-120000"
    assert folder.study_yaml() == "study: kimi-eagle3\n"
    assert (folder.study, folder.simulated, folder.trials(), folder.prompts_used()) == ("kimi-eagle3", False, (), 0)
    assert folder.journal_path.parent == folder.path


def test_a_simulated_study_says_so_in_its_name_and_its_marker(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, spec(), "", simulated=True, now=NOON)
    assert folder.path.name == "kimi-eagle3-simulated-20260131-120000"
    assert RunFolder.open(folder.path).simulated is True


def test_two_studies_of_one_second_get_two_folders(tmp_path: Path) -> None:
    names = [RunFolder.create(tmp_path, spec(), "", simulated=False, now=NOON).path.name for _ in range(3)]
    assert names == [f"kimi-eagle3-20260131-120000{ending}" for ending in ("", "-2", "-3")]


def test_a_study_name_cannot_lead_out_of_the_root(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", spec(name="../../a b/c"), "", simulated=False, now=NOON)
    assert folder.path.parent == (tmp_path / "runs").resolve()
    assert folder.study == "../../a b/c"


def test_latest_points_at_the_newest_and_is_no_study_of_its_own(tmp_path: Path) -> None:
    RunFolder.create(tmp_path, spec(), "", simulated=False, now=NOON)
    newer = RunFolder.create(tmp_path, spec(name="b"), "", simulated=False, now=NOON + timedelta(hours=1))
    assert (tmp_path / "latest").resolve() == newer.path
    assert RunFolder.find(tmp_path, "latest") == newer
    assert len(RunFolder.all(tmp_path)) == 2


def test_folders_are_found_by_nothing_by_name_by_path_and_by_a_unique_beginning(tmp_path: Path) -> None:
    zeta = RunFolder.create(tmp_path, spec(name="zeta"), "", simulated=False, now=NOON)
    alpha = RunFolder.create(tmp_path, spec(name="alpha"), "", simulated=False, now=NOON + timedelta(hours=1))
    (tmp_path / "no-study").mkdir()
    assert RunFolder.all(tmp_path) == (zeta, alpha)
    assert RunFolder.find(tmp_path, None) == alpha
    assert RunFolder.find(tmp_path, zeta.path.name) == zeta
    assert RunFolder.find(tmp_path, str(zeta.path)) == zeta
    assert RunFolder.find(tmp_path, "zet") == zeta


def test_a_name_that_begins_another_is_found_exactly(tmp_path: Path) -> None:
    first = RunFolder.create(tmp_path, spec(), "", simulated=False, now=NOON)
    RunFolder.create(tmp_path, spec(), "", simulated=False, now=NOON)
    assert RunFolder.find(tmp_path, first.path.name) == first


@pytest.mark.parametrize(
    ("name", "message"),
    [("kimi", "2 studies begin so"), ("nothing", "no study begins so")],
)
def test_a_name_that_fits_none_or_several_is_refused_with_the_names_there_are(
    tmp_path: Path, name: str, message: str
) -> None:
    RunFolder.create(tmp_path, spec(), "", simulated=False, now=NOON)
    RunFolder.create(tmp_path, spec(), "", simulated=False, now=NOON)
    with pytest.raises(RunFolderError, match=message) as caught:
        RunFolder.find(tmp_path, name)
    assert "kimi-eagle3-20260131-120000-2" in caught.value.hint


def test_no_study_at_all_says_how_to_begin_one(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="there is none") as caught:
        RunFolder.find(tmp_path / "runs", None)
    assert "autotune run" in caught.value.hint


def test_what_is_not_a_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"must hold run\.json") as caught:
        RunFolder.open(tmp_path)
    assert caught.value.hint


def test_a_run_folder_of_a_newer_schema_is_refused_and_says_so(folder: RunFolder) -> None:
    marker = json.loads((folder.path / "run.json").read_text())
    (folder.path / "run.json").write_text(json.dumps({**marker, "schema_version": 2}))
    with pytest.raises(RunFolderError, match="schema 1, but got 2"):
        RunFolder.open(folder.path)


def test_trials_come_back_in_the_order_in_which_they_ran(folder: RunFolder) -> None:
    results = (trial(0), trial(2, None), trial(1, 356.6))
    for result in results:
        assert folder.append(result) == result
    assert RunFolder.open(folder.path).trials() == results
    assert len(folder.trials_path.read_bytes().splitlines()) == 3


def test_a_half_written_last_line_is_passed_over_at_reading(folder: RunFolder) -> None:
    folder.append(trial(0))
    with folder.trials_path.open("ab") as file:
        file.write(b'{"schema_version":1,"number":1,"conf')
    assert folder.trials() == (trial(0),)


def test_a_half_written_last_line_is_cut_off_before_the_next_one_with_a_remark(folder: RunFolder) -> None:
    folder.append(trial(0))
    with folder.trials_path.open("ab") as file:
        file.write(b'{"schema_version":1,"num')
    stored = folder.append(trial(1))
    assert stored.remarks == ("24 bytes of a half-written record before this one were cut off",)
    assert folder.trials() == (trial(0), stored)


def test_damage_before_the_last_line_is_refused_with_its_line(folder: RunFolder) -> None:
    folder.append(trial(0))
    with folder.trials_path.open("ab") as file:
        file.write(b"garbage\n")
    folder.append(trial(1))
    with pytest.raises(RunFolderError, match=r"trials\.jsonl:2: must be the record of a trial") as caught:
        folder.trials()
    assert caught.value.hint


def test_a_trial_of_a_newer_schema_is_refused_with_its_line(folder: RunFolder) -> None:
    folder.append(trial(0))
    with folder.trials_path.open("ab") as file:
        file.write(b'{"schema_version": 9}\n')
    with pytest.raises(RunFolderError, match=r"trials\.jsonl:2: .*got schema 9"):
        folder.trials()


def test_the_command_stands_beside_the_log_with_its_secrets_masked(folder: RunFolder) -> None:
    folder.append(trial(7, command=command("--api-key", "k-1")))
    text = (folder.path / "trials" / "0007" / "command.json").read_text()
    assert json.loads(text)["argv"][-2:] == ["--api-key", "***"]
    assert "k-1" not in folder.trials_path.read_text()


def test_a_trial_without_a_command_leaves_no_command_file(folder: RunFolder) -> None:
    folder.append(trial(7, None, command=None))
    assert not (folder.path / "trials" / "0007").exists()


def test_server_info_of_each_attempt_is_kept_and_masked(folder: RunFolder) -> None:
    folder.write_server_info(7, 1, '{"api_key": "k-1"}')
    folder.write_server_info(7, 2, '{"api_key": null}')
    where = folder.trial_folder(7)
    assert (where / "server_info.json").read_text() == '{"api_key": "***"}'
    assert (where / "server_info-2.json").read_text() == '{"api_key": null}'


def test_a_secret_of_the_study_file_is_not_on_the_disk(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, spec(), "engine:\n  env:\n    HF_TOKEN: hf_1\n", simulated=False)
    assert folder.study_yaml() == "engine:\n  env:\n    HF_TOKEN: '***'\n"


def test_a_report_is_replaced_whole(folder: RunFolder) -> None:
    folder.write_report("report.md", "long text before")
    path = folder.write_report("report.md", "short")
    assert path.read_text() == "short"


def test_a_report_stays_inside_the_folder(folder: RunFolder) -> None:
    with pytest.raises(ValueError, match="name must be that of a file"):
        folder.write_report("../report.md", "x")


def test_prompts_once_noted_stay_noted(folder: RunFolder) -> None:
    folder.note_prompts(120)
    folder.note_prompts(80)
    assert RunFolder.open(folder.path).prompts_used() == 120


def test_held_out_prompts_are_counted_apart_and_an_older_count_has_none_of_them(folder: RunFolder) -> None:
    folder.note_prompts(120)
    folder.note_prompts(30, held_out=True)
    folder.note_prompts(20, held_out=True)
    again = RunFolder.open(folder.path)
    assert (again.prompts_used(), again.prompts_used(held_out=True)) == (120, 30)
    (folder.path / "prompts.json").write_text('{"schema_version": 1, "prompts_used": 7}')
    assert (again.prompts_used(), again.prompts_used(held_out=True)) == (7, 0)


def test_a_damaged_count_of_prompts_is_refused_and_never_read_as_none(folder: RunFolder) -> None:
    (folder.path / "prompts.json").write_text("{}")
    with pytest.raises(RunFolderError, match="must say how many prompts"):
        folder.prompts_used()


def test_nothing_is_left_of_the_temporary_files(folder: RunFolder) -> None:
    folder.append(trial(0))
    folder.note_prompts(5)
    folder.write_report("report.md", "x")
    assert [path for path in folder.path.parent.rglob("*") if ".tmp" in path.name] == []


def test_a_second_writer_is_refused_until_the_first_lets_go(folder: RunFolder) -> None:
    other = RunFolder.open(folder.path)
    with folder.hold(), pytest.raises(RunFolderError, match="must have one writer"), other.hold():
        pass
    with other.hold():
        pass


def test_a_folder_that_cannot_be_written_stops_the_study_with_what_is_safe(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.append(trial(0))
    folder.append(trial(1))

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        StudyStopped, match=r"trials\.jsonl must be writable.*No space left.*2 trials are safe"
    ) as caught:
        folder.append(trial(2))
    assert "free some space" in caught.value.hint


def test_where_no_folder_can_be_made_nothing_is_started(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(StudyStopped, match=r"runs must be writable.*nothing was started"):
        RunFolder.create(tmp_path / "runs", spec(), "", simulated=False)


def test_a_trial_folder_that_cannot_be_made_stops_the_study(folder: RunFolder) -> None:
    (folder.path / "trials").write_text("a file where a folder should be")
    with pytest.raises(StudyStopped, match=r"0007 must be writable.*no trial of"):
        folder.trial_folder(7)


def test_texts_come_back_as_they_were_asked_for_and_damaged_ones_count_as_none(folder: RunFolder) -> None:
    assert folder.read_texts(3) == ()
    asked = ({"p0": "über\nzwei Zeilen", "p1": ""}, {"p0": "again"})
    folder.write_texts(3, asked)
    assert folder.read_texts(3) == asked
    for damaged in ("", "7", "[3]", '{"p0": "text"}'):
        (folder.trial_folder(3) / "texts.json").write_text(damaged)
        assert folder.read_texts(3) == ()
