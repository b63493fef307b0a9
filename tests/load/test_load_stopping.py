"""The client with a rule for when a level ends, against a server that knows what it sent."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field

from reference_server import Behaviour, ReferenceWire, ServerThread

from autotune.domain.measurement import LevelRun, RequestRecord
from autotune.domain.stopping import Look
from autotune.domain.workload import LevelPlan, MeasurementPlan, Prompt, PromptSource
from autotune.errors import LoadFailed
from autotune.load import Clock, prompt_source, run_level
from autotune.scoring import measure
from autotune.scoring.intervals.stopping import WarmAndPrecise


@dataclass
class Scripted:
    """Answers look after look as told, and keeps what it was shown."""

    answers: list[bool]
    why: str = ""
    shown: list[tuple[LevelRun, int]] = field(default_factory=list)

    def look(
        self, run: LevelRun, live: Iterable[RequestRecord], *, may_open_later: bool
    ) -> Generator[None, None, Look]:
        yield
        self.shown.append((run, len(list(live))))
        yield
        return Look(enough=self.answers[len(self.shown) - 1], why=self.why)


def run(port: int, level: LevelPlan, prompts: PromptSource | None = None) -> LevelRun:
    plan = MeasurementPlan((level,), 20)
    source = prompts or prompt_source("coding", seed=7)
    return run_level("127.0.0.1", port, wire=ReferenceWire(), plan=plan, level=level, prompts=source, clock=Clock())


def inside(run: LevelRun) -> int:
    assert run.window is not None
    start, end = run.window
    return sum(r.ok and bool(r.chunk_times_s) and start < r.chunk_times_s[-1] <= end for r in run.records)


def test_a_level_goes_on_until_a_look_is_enough_and_ends_where_that_look_was_due() -> None:
    rule = Scripted([False, True])
    with ServerThread(Behaviour()) as thread:
        seen = run(thread.port, LevelPlan(4, 20, rule=rule, most_requests=160))
    assert [len(shown.records) for shown, _live in rule.shown] == [24, 34]
    assert all(live in (3, 4) for _shown, live in rule.shown)
    assert seen.window == rule.shown[1][0].window
    assert inside(seen) == 30
    assert seen.remarks == ()


def test_why_a_rule_ended_a_level_is_told_with_its_figures_and_of_no_other_end() -> None:
    with ServerThread(Behaviour()) as thread:
        by_rule = run(thread.port, LevelPlan(2, 10, rule=Scripted([True], "hopeless"), most_requests=80))
        by_bound = run(thread.port, LevelPlan(2, 10, rule=Scripted([False], "hopeless"), most_requests=12))
    assert (by_rule.remarks, by_bound.remarks) == (("hopeless",), ())
    assert measure(by_rule).remarks[:1] == ("hopeless",)


def test_the_most_requests_end_a_level_that_is_never_enough() -> None:
    rule = Scripted([False] * 9)
    with ServerThread(Behaviour()) as thread:
        seen = run(thread.port, LevelPlan(2, 10, rule=rule, most_requests=26))
    assert inside(seen) == 26


class FewPrompts:
    """So many and no more."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self._source = capacity, prompt_source("coding", seed=3)

    @property
    def position(self) -> int:
        return self._source.position

    def take(self, count: int) -> list[Prompt]:
        if self.position + count > self.capacity:
            raise LoadFailed("no prompts are left")
        return self._source.take(count)


def test_a_level_that_runs_out_of_prompts_above_its_floor_ends_with_what_it_has() -> None:
    with ServerThread(Behaviour()) as thread:
        seen = run(thread.port, LevelPlan(2, 10, rule=Scripted([False] * 9), most_requests=80), FewPrompts(20))
    assert 10 <= inside(seen) <= 20


def test_a_steady_server_is_precise_at_once() -> None:
    with ServerThread(Behaviour(chunk_delay_s=0.02)) as thread:  # else a hiccup of the machine is half of the level
        seen = run(thread.port, LevelPlan(4, 20, rule=WarmAndPrecise(0.5), most_requests=160))
    assert inside(seen) == 20
    assert measure(seen).output_throughput is not None
