from builders import configuration, eagle, failure, measurement, score, study_result, trial

from autotune.domain.study import StudyResult
from autotune.domain.trial import Origin, TrialState
from autotune.reporting import factor_table, failures_table, throughput_table


def rows(table: str) -> list[list[str]]:
    """Cells of the lines below the rule."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in table.splitlines()[2:]]


def test_throughput_has_a_row_a_level_and_the_baseline_before_the_best_trials() -> None:
    table = throughput_table(study_result(trial(0), trial(1, 340.0), trial(2, 356.6)))
    assert table.splitlines()[0].split() == ["concurrency", "weight", "baseline", "trial", "2", "trial", "1"]
    assert rows(table) == [
        ["1", "1", "92.7 ± 1.0", "99.3 ± 1.0", "94.6 ± 1.0"],
        ["10", "2", "453.2 ± 1.0", "485.3 ± 1.0", "462.7 ± 1.0"],
        ["score", "333.0 ± 1.0", "356.6 ± 1.0", "340.0 ± 1.0"],
        ["change", "-", "+7.1 %", "+2.1 %"],
    ]


def test_throughput_shows_no_more_columns_than_asked_for() -> None:
    table = throughput_table(study_result(*(trial(number, 300.0 + number) for number in range(6))), limit=3)
    assert table.splitlines()[0].split() == ["concurrency", "weight", "baseline", "trial", "5", "trial", "4"]


def test_a_level_that_a_trial_lacks_is_a_dash() -> None:
    table = throughput_table(study_result(trial(0, 333.0, measurements=(measurement(1, 92.7),))))
    assert rows(table)[1] == ["10", "2", "-"]


def test_nothing_complete_gives_no_table() -> None:
    nothing = StudyResult(study_result().spec, (trial(0, None),))
    assert throughput_table(nothing) == ""
    assert factor_table(nothing) == ""


def test_a_factor_is_measured_against_the_best_until_then_that_differs_in_it_alone() -> None:
    table = factor_table(
        study_result(
            trial(0, 300.0, 3.0),
            trial(1, 330.0, 3.3, configuration=configuration(cuda_graph_max_bs=256)),
            trial(2, 297.0, None, configuration=configuration(cuda_graph_max_bs=256, NCCL_PROTO="LL")),
            trial(3, 363.0, 3.63, configuration=configuration(cuda_graph_max_bs=256, attention_backend="triton")),
            trial(4, None, configuration=configuration(cuda_graph_max_bs=512)),
        )
    )
    assert rows(table) == [
        ["cuda_graph_max_bs", "128", "256", "+10.0 % ± 1.6", "1", "0"],
        ["NCCL_PROTO", "-", "LL", "-10.0 %", "2", "1"],
        ["attention_backend", "flashinfer", "triton", "+10.0 % ± 1.6", "3", "1"],
        ["cuda_graph_max_bs", "256", "512", "out_of_memory", "4", "1"],
    ]


def test_what_comes_with_a_factor_does_not_hide_it() -> None:
    assert rows(factor_table(study_result(trial(0, 300.0), trial(1, 330.0, None, configuration=eagle())))) == [
        ["speculative_algorithm", "unset", "EAGLE3", "+10.0 %", "1", "0"]
    ]


def test_two_changes_at_once_tell_nothing_of_either() -> None:
    both = configuration(cuda_graph_max_bs=256, attention_backend="triton")
    assert factor_table(study_result(trial(0), trial(1, 350.0, configuration=both))) == ""


def test_trials_of_the_sampler_are_no_ablation() -> None:
    changed = trial(1, 350.0, configuration=configuration(cuda_graph_max_bs=256), origin=Origin.SAMPLER)
    assert factor_table(study_result(trial(0), changed)) == ""


def test_failures_show_reason_attempts_and_evidence() -> None:
    failed = trial(
        2, None, configuration=configuration(cuda_graph_max_bs=512), attempts=2, failure=failure(evidence="CUDA OOM")
    )
    assert rows(failures_table(study_result(trial(0), failed))) == [
        ["2", "out_of_memory", "2", "cuda_graph_max_bs=512", "CUDA OOM"]
    ]


def test_a_trial_that_ran_to_its_end_without_a_score_is_among_the_failures() -> None:
    hollow = trial(1, 340.0, score=None, measurements=(measurement(1), measurement(10, None)))
    cut_off = trial(2, None, state=TrialState.INTERRUPTED, failure=None)
    found = rows(failures_table(study_result(trial(0), hollow, cut_off)))
    assert [row[1] for row in found] == ["complete", "interrupted"]
    assert found[0][-1] == "no throughput at level 10"


def test_no_failures_give_no_table() -> None:
    assert failures_table(study_result(trial(0))) == ""


def test_a_speed_up_is_shown_with_three_digits() -> None:
    table = throughput_table(study_result(trial(0, score=score(1.0714, 0.0132, metric="weighted_speedup"))))
    assert rows(table)[2] == ["score", "1.071 ± 0.013 x"]
