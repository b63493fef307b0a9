import io

from builders import configuration, eagle, spec, trial
from rich.console import Console

from autotune.cli.live import Lines, Table
from autotune.domain.study import EngineSpec
from autotune.domain.trial import Origin, TrialRequest
from autotune.study import StudyEvent


def screen(table: Table) -> str:
    out = io.StringIO()
    Console(file=out, width=160).print(table.live.get_renderable())
    return out.getvalue()


def test_the_live_table_says_that_a_simulated_study_is_one() -> None:
    simulated = spec(engine=EngineSpec("simulated", None, "imaginary/model"))
    assert "[simulated]" in screen(Table(simulated, io.StringIO(), ()))
    assert "[simulated]" not in screen(Table(spec(), io.StringIO(), ()))


def test_the_live_table_shows_what_ran_what_runs_and_in_which_phase() -> None:
    table = Table(spec(), io.StringIO(), (trial(number=0, configuration=configuration()),))
    table.event(StudyEvent("asked", TrialRequest(1, eagle(cuda_graph_max_bs=256), Origin.GREEDY)))
    table.phase("C=10")
    shown = screen(table)
    assert "(the baseline)" in shown
    assert "C=10" in shown
    running = next(line for line in shown.splitlines() if "greedy" in line)
    assert "speculative_algorithm=EAGLE3" in running, "what matters first is not cut off"


def test_plain_lines_have_a_line_for_each_level_and_one_for_the_trial() -> None:
    out = io.StringIO()
    lines = Lines(spec(), out, ())
    lines.event(StudyEvent("told", None, trial(number=3, configuration=configuration())))
    text = out.getvalue()
    assert "C=" in text
    assert "trial   3" in text
