import pytest
from builders import configuration, eagle, failure, measurement, percentiles, trial

from autotune.domain.trial import FailureReason, TrialState
from autotune.reporting import differences_from_baseline, level_line, trial_line


def test_a_level_is_shown_in_the_shape_of_the_published_tables() -> None:
    e2e = percentiles(11.3, p50=11.3, p99=11.4)
    assert level_line(measurement(10, 453.2, 1.2, per_request_rate=45.3, e2e_s=e2e)) == (
        "C= 10 | 60 requests | throughput:   453.2 tok/s ± 1.2 | per-req:   45.3 tok/s"
        " | latency avg/p50/p99:   11.3/  11.3/  11.4s | ok: 60/60"
    )


def test_a_level_without_an_interval_is_the_published_line_to_the_letter() -> None:
    seen = measurement(1, 92.7, None, requests_total=30, requests_ok=30, e2e_s=percentiles(5.5, p99=5.5))
    assert level_line(seen) == (
        "C=  1 | 30 requests | throughput:    92.7 tok/s | per-req:   92.7 tok/s"
        " | latency avg/p50/p99:    5.5/   5.5/   5.5s | ok: 30/30"
    )


def test_the_accept_length_is_shown_where_it_is_known() -> None:
    assert level_line(measurement(accept_length=2.912)).endswith(" | ok: 60/60 | accept 2.91")


def test_what_a_level_did_not_show_is_a_dash_and_no_zero() -> None:
    assert level_line(measurement(250, None)) == (
        "C=250 | 0 requests | throughput:       - tok/s | per-req:      - tok/s"
        " | latency avg/p50/p99:      -/     -/     - | ok: 0/0"
    )


def test_a_complete_trial_is_one_line_against_the_baseline() -> None:
    better = trial(7, 356.6, 1.0, configuration=configuration(cuda_graph_max_bs=256))
    assert trial_line(better, trial(0)) == (
        "trial   7 | complete    | 356.6 ± 1.0 tok/s | +7.1 % | 5.0 min | cuda_graph_max_bs=256"
    )


def test_the_baseline_shows_its_whole_configuration() -> None:
    assert trial_line(trial(0), trial(0)) == (
        "trial   0 | complete    | 333.0 ± 1.0 tok/s | baseline | 5.0 min"
        " | attention_backend=flashinfer, cuda_graph_max_bs=128, speculative_algorithm=unset"
    )


def test_without_a_baseline_there_is_no_change_to_show() -> None:
    assert " | 333.0 tok/s | - | " in trial_line(trial(3, 333.0, None), None)


def test_a_failed_trial_shows_reason_and_evidence_on_one_line() -> None:
    why = failure(reason=FailureReason.DIED_STARTING, evidence="Traceback:\n  boom" + "!" * 300)
    line = trial_line(trial(2, None, failure=why, state=TrialState.FAILED), trial(0))
    assert line.startswith("trial   2 | failed      | died_starting: Traceback: boom!!!")
    assert "\n" not in line
    assert "…" in line
    assert "node" not in line


def test_a_failure_without_evidence_shows_its_message() -> None:
    assert "out_of_memory: no room" in trial_line(trial(2, None, failure=failure(evidence="", message="no room")), None)


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        (configuration(), "(the baseline)"),
        (configuration(cuda_graph_max_bs=64, attention_backend=None), "attention_backend=unset, cuda_graph_max_bs=64"),
        (configuration().without("cuda_graph_max_bs"), "cuda_graph_max_bs=-"),
        (configuration(NCCL_PROTO="LL").without("cuda_graph_max_bs"), "NCCL_PROTO=LL"),
        (eagle(spec_v2=False), "spec_v2=false, speculative_algorithm=EAGLE3, speculative_eagle_topk=1, "
                               "speculative_num_steps=2"),
    ],
)  # fmt: skip
def test_differences_name_what_the_configuration_sets_anew(changed: object, shown: str) -> None:
    assert differences_from_baseline(changed, configuration()) == shown  # type: ignore[arg-type]
