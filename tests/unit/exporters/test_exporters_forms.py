import json

from builders import command, estimate, provenance, score, study_result, trial

from autotune import exporters
from autotune.domain.slo import SloCheck
from autotune.domain.study import StudyResult
from autotune.domain.trial import Difference, LaunchCommand


def of(launched: LaunchCommand, **overrides: object) -> StudyResult:
    return study_result(trial(0, 333.0, command=launched, **overrides))


def render(form: str, result: StudyResult) -> str:
    return exporters.render(form, result, result.trials[0])


def test_the_script_has_a_line_for_each_flag_and_ends_by_becoming_the_server() -> None:
    lines = render("shell", of(command("--cuda-graph-bs", "1", "2", "--temperature", "-1"))).splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert "export NCCL_PROTO=LL" in lines
    assert "unset NCCL_ALGO" in lines
    start = lines.index("exec /opt/sglang/bin/python -m sglang.launch_server \\")
    assert lines[start + 1 :] == [
        "  --model-path /models/kimi \\",
        "  --tp-size 8 \\",
        "  --host 127.0.0.1 \\",
        "  --port 30000 \\",
        "  --served-model-name kimi-eagle3 \\",
        "  --cuda-graph-bs 1 2 \\",
        "  --temperature -1",
    ]


def test_the_heading_says_why_this_trial_and_what_it_breaks() -> None:
    broken = SloCheck("ttft_p95_ms", 10, 500.0, 812.0, 0.624, 100, 700.0, 900.0)
    result = of(command(), slo=(broken,))
    text = exporters.render("shell", result, result.trials[0], note="highest throughput at level 10")
    assert "# highest throughput at level 10" in text
    assert "# breaks the SLO: ttft_p95_ms at level 10: 812 > 500" in text
    notes = json.loads(exporters.render("json", result, result.trials[0]))["notes"]
    assert notes[0] == "breaks the SLO: ttft_p95_ms at level 10: 812 > 500"


def test_a_simulated_study_is_stamped_in_the_heading_with_its_clock_rate() -> None:
    text = render("shell", of(command(), provenance=provenance(simulated=True, clock_rate=20.0)))
    assert "# SIMULATED: measured on a simulated node (clock rate 20), not on a real one" in text


def test_a_flag_that_the_command_did_not_have_is_not_added_and_the_reader_is_told() -> None:
    text = render("shell", of(LaunchCommand(("serve", "--host", "h"))))
    assert "# --port was not given in the command that ran, and is not set here" in text
    assert "30000" not in text
    assert "exec serve \\\n  --host 127.0.0.1\n" in text


def test_a_value_that_looks_like_the_port_elsewhere_stays() -> None:
    assert "--seed 41234" in render("shell", of(command("--seed", "41234")))


def test_the_environment_file_quotes_values_and_keeps_the_command_in_a_comment() -> None:
    text = render("env", of(command(chosen={"B": "two words", "A": "1"})))
    assert text.endswith("A=1\nB='two words'\n")
    assert "# command: /opt/sglang/bin/python -m sglang.launch_server --model-path /models/kimi" in text
    assert all(line.startswith("#") for line in text.splitlines()[:-2])


def test_the_object_has_every_field_a_program_needs() -> None:
    differences = (Difference("max_running_requests", "256", "48"),)
    result = of(command("--api-key", "hush"), differences=differences, score=score(333.0, 2.0))
    shown = json.loads(render("json", result))
    assert shown["argv"][:3] == ["/opt/sglang/bin/python", "-m", "sglang.launch_server"]
    assert shown["argv"][-2:] == ["--api-key", "${API_KEY}"]
    assert shown["env"] == {"NCCL_PROTO": "LL"}
    assert shown["unset"] == ["NCCL_ALGO"]
    assert shown["secrets"] == ["API_KEY"]
    assert shown["score"] == {"metric": "weighted_throughput", "value": 333.0, "low": 331.0, "high": 335.0}
    assert shown["resolved_differences"] == [{"argument": "max_running_requests", "asked": "256", "resolved": "48"}]
    assert (shown["study"], shown["trial"], shown["simulated"], shown["engine_version"]) == (
        "kimi-eagle3",
        0,
        False,
        "0.5.23",
    )
    assert shown["configuration"]["speculative_algorithm"] is None


def test_what_is_missing_is_null_and_never_zero() -> None:
    bare = score(333.0, estimate=estimate(333.0))
    assert json.loads(render("json", of(command(), score=bare)))["score"]["low"] is None
    failed = study_result(trial(0, None, provenance=None))
    shown = json.loads(exporters.render("json", failed, failed.trials[0]))
    assert (shown["score"], shown["engine_version"], shown["clock_rate"]) == (None, None, None)
    assert "# score: none, this trial is infeasible" in exporters.render("shell", failed, failed.trials[0])
