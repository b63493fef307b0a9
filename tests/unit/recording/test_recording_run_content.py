"""What MLflow is told of a trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from builders import command, configuration, measurement, provenance, spec, study_result, trial

from autotune.domain.confirmation import Replicate
from autotune.domain.trial import Difference, Origin, TrialResult, TrialState
from autotune.recording import RunFolder
from autotune.recording.run_content import RunContent, cut_log, study_note, trial_content, trial_note


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path, spec(), "", simulated=False)


def content(result: TrialResult, folder: RunFolder) -> RunContent:
    return trial_content(result, study_result(trial(0), result), folder)


def test_levels_are_steps_and_what_was_not_seen_is_left_out(folder: RunFolder) -> None:
    seen = (measurement(1, 100.0, accept_length=2.5), measurement(10, None))
    metrics = content(trial(1, measurements=seen), folder).metrics
    assert {(name, step) for name, _value, step in metrics if step} == {
        (name, 1)
        for name in (
            *("output_throughput", "per_request_rate", "ttft_p50_ms", "ttft_p95_ms", "itl_mean_ms"),
            *("tpot_p50_ms", "e2e_p50_s", "e2e_p99_s", "accept_length"),
        )
    }
    assert ("output_throughput", 100.0, 1) in metrics


def test_single_figures_stand_beside_the_levels(folder: RunFolder) -> None:
    single = {name: value for name, value, step in content(trial(1, 356.31, 1.0), folder).metrics if step == 0}
    assert single == pytest.approx(
        {
            "objective": 356.31,
            "objective_low": 355.31,
            "objective_high": 357.31,
            "speedup_vs_baseline": 1.07,
            "node_seconds": 300.0,
            "startup_seconds": 120.0,
        }
    )


def test_a_failed_trial_has_no_objective_but_its_reason_and_evidence(folder: RunFolder) -> None:
    run = content(trial(2, None), folder)
    assert [name for name, _value, _step in run.metrics] == ["node_seconds"]
    assert run.tags["failure_reason"] == "out_of_memory"
    assert run.tags["failure_evidence"].startswith("torch.OutOfMemoryError")


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (TrialState.COMPLETE, "FINISHED"),
        (TrialState.INFEASIBLE, "FAILED"),
        (TrialState.FAILED, "FAILED"),
        (TrialState.INTERRUPTED, "KILLED"),
    ],
)
def test_every_state_has_its_status(folder: RunFolder, state: TrialState, status: str) -> None:
    assert content(trial(1, state=state), folder).status == status


def test_params_are_the_configuration_with_unset_shown(folder: RunFolder) -> None:
    run = content(trial(1, configuration=configuration(spec_v2=True)), folder)
    assert run.params == {
        "attention_backend": "flashinfer",
        "cuda_graph_max_bs": "128",
        "spec_v2": "true",
        "speculative_algorithm": "unset",
    }


def test_a_run_is_named_by_what_differs_from_the_baseline(folder: RunFolder) -> None:
    assert content(trial(0), folder).name == "00 baseline"
    assert content(trial(7, configuration=configuration(attention_backend="triton")), folder).name == (
        "07 greedy attention_backend=triton"
    )


def test_a_long_name_is_cut(folder: RunFolder) -> None:
    name = content(trial(8), folder).name
    assert len(name) == 60
    assert name.endswith("…")


def test_a_run_lasts_as_long_as_the_trial_took_on_the_node(folder: RunFolder) -> None:
    run = content(trial(1, started_at="1970-01-01T00:00:10Z", node_seconds=1.5), folder)
    assert (run.start_ms, run.end_ms) == (10_000, 11_500)


def test_tags_say_where_the_figures_come_from(folder: RunFolder) -> None:
    tags = content(trial(1, provenance=provenance(node={"GPU 0 (bus %)": "RTX"})), folder).tags
    assert tags["engine_version"] == "0.5.23"
    assert tags["tuner.commit"] == "abc1234"
    assert tags["node.GPU 0 _bus __"] == "RTX"
    assert tags["simulated"] == "false"
    assert tags["clock_rate"] == "1"


def test_a_simulated_study_is_stamped_even_where_a_trial_has_no_provenance(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path, spec(), "", simulated=True)
    run = content(trial(1, None, provenance=None), folder)
    assert run.tags["simulated"] == "true"
    assert "Simulated node" in run.tags["mlflow.note.content"]
    assert study_note(study_result(), folder).startswith("**Simulated node")


def test_a_note_shows_levels_differences_and_remarks() -> None:
    note = trial_note(
        trial(1, 333.0, differences=(Difference("max_running_requests", "256", "48"),), remarks=("killed",)),
        simulated=False,
    )
    assert "C= 10 | 60 requests | throughput: 453.2 ± 1 tok/s | per-req: 45.3 tok/s" in note
    assert "ok: 60/60" in note
    assert "asked `max_running_requests` = 256, the server runs with 48" in note
    assert "- killed" in note
    assert "Simulated" not in note


def test_a_level_of_which_nothing_was_seen_shows_no_zero() -> None:
    note = trial_note(trial(1, measurements=(measurement(10, None),)), simulated=False)
    assert "throughput: – tok/s | per-req: – | latency avg/p50/p99: – | ok: 0/0" in note


def test_the_studys_note_has_a_row_for_each_trial(folder: RunFolder) -> None:
    rows = [line for line in study_note(study_result(), folder).splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 3
    assert rows[3].startswith("| 01 greedy | complete | 356.6 ± 1 | 1.071 |")
    assert rows[4].startswith("| 02 greedy | out_of_memory | – | – | – | – |")
    assert len({row.count(" | ") for row in rows}) == 1


def test_artifacts_are_the_command_the_info_and_the_log_of_each_attempt(folder: RunFolder) -> None:
    result = folder.append(trial(7, attempts=2, command=command("--api-key", "k-1")))
    (folder.trial_folder(7) / "server.log").write_text("ServerArgs(api_key='k-1', port=1)\n")
    (folder.trial_folder(7) / "server-2.log").write_text("second\n")
    folder.write_server_info(7, 2, "{}")
    texts = content(result, folder).texts
    assert set(texts) == {"launch_command.json", "server.log", "server-2.log", "server_info-2.json"}
    assert "k-1" not in "".join(texts.values())


def test_a_long_log_keeps_its_beginning_and_its_end() -> None:
    cut = cut_log("a" * 500 + "b" * 500, limit=100)
    assert cut.startswith("a" * 25 + "\n")
    assert cut.endswith("\n" + "b" * 75)
    assert "900 characters left out" in cut
    assert cut_log("short", limit=100) == "short"


def test_a_run_of_a_confirmation_says_what_it_confirms_and_is_held_against_its_own_baseline(folder: RunFolder) -> None:
    plan = Replicate(None, 2, 6, (1,))
    base = trial(7, 300.0, origin=Origin.CONFIRMATION, configuration=configuration(), replicate=plan)
    run = trial(8, 330.0, origin=Origin.CONFIRMATION, replicate=replace(plan, confirms=1))
    study = study_result(trial(0), trial(1, 356.6), base, run)
    of_base, of_run = (trial_content(result, study, folder) for result in (base, run))
    assert (of_base.tags["confirms"], of_run.tags["confirms"]) == ("baseline", "1")
    assert of_run.tags["confirmation_round"] == "2 of 6"
    assert of_run.name.startswith("08 confirmation speculative_algorithm=EAGLE3")
    assert ("speedup_vs_baseline", pytest.approx(1.1), 0) in of_run.metrics
    assert ("speedup_vs_baseline", pytest.approx(1.0), 0) in of_base.metrics
    assert "confirms" not in trial_content(study.trials[1], study, folder).tags
