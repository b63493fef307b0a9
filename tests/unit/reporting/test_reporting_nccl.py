from dataclasses import replace
from typing import Any

from builders import configuration, provenance, study_result, trial

from autotune import reporting
from autotune.domain.trial import Difference, TrialResult
from autotune.reporting.sections.nccl import nccl_rows
from autotune.reporting.sections.servers import duplicate_rows, rewrite_rows


def proven(number: int, value: float | None, small_us: float | None, **nccl: str) -> TrialResult:
    times = {} if small_us is None else {"allreduce_us.8192": f"{small_us}", "allreduce_us.8192.p10": "1"}
    proof = {**{f"set.{name}": text for name, text in nccl.items()}, **times, "allreduce_us.8388608": "120"}
    proof |= {"chosen.8192": "RING LL x2", "via": "P2P/CUMEM"}
    return replace(trial(number, value), configuration=configuration(**nccl), proof=proof)


def test_the_probes_ranking_stands_beside_the_serving_ranking() -> None:
    result = study_result(
        proven(0, 333.0, 12.0), proven(1, 350.0, 9.0, NCCL_PROTO="LL"), proven(2, 300.0, 10.0, NCCL_PROTO="Simple")
    )
    table = nccl_rows(result)
    column = {name: index for index, name in enumerate(table.header)}
    by_trial = {row[0]: row for row in table.rows}
    assert [by_trial[n][column["place (probe)"]] for n in "012"] == ["3", "1", "2"]
    assert [by_trial[n][column["place (serving)"]] for n in "012"] == ["2", "1", "3"]
    assert by_trial["0"][column["NCCL"]] == "(none set)"
    assert by_trial["1"][column["NCCL"]] == "NCCL_PROTO=LL"
    assert by_trial["1"][column["µs at 8 KiB"]] == "9.0"
    assert by_trial["1"][column["µs at 8 MiB"]] == "120.0"
    assert column["C=1 tok/s"] < column["C=10 tok/s"]
    assert "RING LL x2" in reporting.nccl_table(result)


def test_settings_that_are_not_told_apart_share_a_place_and_a_setting_that_ran_twice_counts_once() -> None:
    spread = {"allreduce_us.8192.p10": "8.9", "allreduce_us.8192.p90": "9.3"}
    trials = [
        proven(0, 300.0, 9.0),
        proven(1, 301.0, 9.1, NCCL_ALGO="allreduce:ring"),
        proven(2, 250.0, 12.0, NCCL_PROTO="Simple"),
        proven(3, 302.0, 9.0),
    ]
    trials = [replace(one, proof={**one.proof, **spread}) for one in trials]
    table = nccl_rows(study_result(*trials))
    places = {row[0]: row[table.header.index("place (probe)")] for row in table.rows}
    assert places == {"0": "1", "1": "1", "2": "3", "3": "1"}


def test_of_many_sizes_the_smallest_the_middle_and_the_largest_are_shown() -> None:
    one = proven(0, 300.0, 9.0)
    times = {f"allreduce_us.{2**power}": f"{power}" for power in range(13, 24)}
    table = nccl_rows(study_result(replace(one, proof={**one.proof, **times})))
    assert [name for name in table.header if "µs" in name] == ["µs at 8 KiB", "µs at 256 KiB", "µs at 8 MiB"]
    assert table.rows[0][2:5] == ("13.0", "18.0", "23.0")
    assert {table.header[column] for column in table.right} >= {"µs at 256 KiB", "score", "place (serving)"}


def test_places_count_only_among_trials_that_differ_in_nccl_alone() -> None:
    other = replace(proven(1, 400.0, 9.0), configuration=configuration(cuda_graph_max_bs=512))
    table = nccl_rows(study_result(proven(0, 333.0, 12.0), other))
    assert {row[table.header.index("place (serving)")] for row in table.rows} == {"-"}


def test_a_trial_without_figures_keeps_its_row_and_has_no_place() -> None:
    failed = proven(1, None, 9.0, NCCL_PROTO="LL")
    table = nccl_rows(study_result(proven(0, 333.0, 12.0), failed, proven(2, 300.0, None, NCCL_PROTO="Simple")))
    row = next(row for row in table.rows if row[0] == "1")
    assert row[table.header.index("place (serving)")] == "-"
    assert row[table.header.index("score")] == "infeasible"
    assert row[table.header.index("C=1 tok/s")] == "-"


def test_without_proofs_there_is_no_table_and_no_section() -> None:
    assert reporting.nccl_table(study_result()) == ""
    assert "## NCCL" not in reporting.markdown_report(study_result())


def duplicated() -> Any:
    first = replace(trial(1, 340.0), differences=(Difference("page_size", "16", "1"),))
    second = replace(
        first,
        number=2,
        configuration=first.configuration.replace(cuda_graph_max_bs=512),
        duplicate_of=1,
        differences=(Difference("page_size", "16", "1"), Difference("cuda_graph_max_bs", "512", "128")),
    )
    return study_result(trial(0), first, second)


def test_duplicates_are_listed_with_what_they_asked_for_and_are_never_the_best() -> None:
    result = duplicated()
    assert duplicate_rows(result).rows == (("2", "1", "cuda_graph_max_bs=512"),)
    assert result.best.number == 1
    report = reporting.markdown_report(result)
    assert "## Configurations that are one server" in report
    assert "as trial 1" in report
    assert "trial 2 " not in reporting.throughput_table(result)
    assert "as trial 1" in reporting.trial_line(result.trials[2], result.baseline)


def test_every_rewrite_is_listed_with_its_trials_and_secrets_are_not() -> None:
    result = duplicated()
    assert ("page_size", "16", "1", "1, 2") in rewrite_rows(result).rows
    assert ("cuda_graph_max_bs", "512", "128", "2") in rewrite_rows(result).rows
    hidden = replace(trial(0), differences=(Difference("api_key", "hunter2x", "other"),))
    assert "hunter2x" not in str(rewrite_rows(study_result(hidden)))


def test_simulated_acceptance_is_said_by_the_report_the_note_the_verdict_and_the_terminal() -> None:
    pretending = replace(trial(1, 400.0), pretences=("SGLANG_SIMULATE_ACC_LEN=2.0",), provenance=provenance())
    result = study_result(trial(0), pretending)
    for text in (
        reporting.markdown_report(result),
        reporting.experiment_note(result),
        reporting.terminal_report(result),
    ):
        assert "ACCEPTANCE SIMULATED" in text
        assert "SGLANG_SIMULATE_ACC_LEN=2.0" in text.replace("\\", "")
    assert reporting.verdict(result).startswith("[acceptance simulated]")
    assert "ACCEPTANCE" not in reporting.markdown_report(study_result())
