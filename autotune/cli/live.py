"""What `run` shows while it works: a live table on a terminal, plain lines elsewhere. All of it on stderr."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from autotune.domain.configuration import Configuration
from autotune.domain.confirmation import Replicate
from autotune.domain.study import StudySpec
from autotune.domain.trial import Origin, TrialResult, TrialState
from autotune.reporting import differences_from_baseline, level_line, trial_line
from autotune.reporting.figures import duration
from autotune.reporting.sections.servers import state_word

if TYPE_CHECKING:
    from rich.console import RenderableType

    from autotune.study import StudyEvent

_ROWS = 18


class Display(Protocol):
    def event(self, event: StudyEvent) -> None: ...

    def phase(self, phase: str) -> None: ...


@contextmanager
def display(spec: StudySpec, stream: TextIO, history: Sequence[TrialResult] = ()) -> Iterator[Display]:
    """The display that suits the stream; it is closed, and the terminal restored, whatever happens."""
    if not stream.isatty():
        yield Lines(spec, stream, history)
        return
    table = Table(spec, stream, history)
    with table.live:
        yield table


class Progress:
    """Counts what both displays show: trials done, node time used, and an estimate of what is left."""

    def __init__(self, spec: StudySpec, history: Sequence[TrialResult]) -> None:
        self.spec = spec
        self.results = list(history)

    @property
    def baseline(self) -> TrialResult | None:
        wanted = self.spec.baseline
        return next((r for r in self.results if r.configuration == wanted and r.state is TrialState.COMPLETE), None)

    @property
    def node_seconds(self) -> float:
        return sum(result.node_seconds for result in self.results)

    def remaining(self) -> float | None:
        """Node seconds to the end of the budget, the confirmation included; None before the first complete trial, or
        without a budget."""
        lengths = [r.node_seconds for r in self.results if r.state is TrialState.COMPLETE]
        bounds = []
        if self._plan is not None and lengths:
            done = sum(r.replicate is not None and r.state is not TrialState.INTERRUPTED for r in self.results)
            planned = self._plan.rounds * (len(self._plan.finalists) + 1)
            bounds.append(max(0, planned - done) * statistics.median(lengths))
        elif self.spec.budget.trials is not None and lengths:
            search = max(0, self.spec.budget.trials - len(self.searched)) * statistics.median(lengths)
            confirm = self.spec.budget.confirm
            share = 0.0 if confirm is None else confirm.share / (1.0 - confirm.share)
            bounds.append(search + share * (self.node_seconds + search))
        if self.spec.budget.hours is not None:
            bounds.append(max(0.0, self.spec.budget.hours * 3600 - self.node_seconds))
        return min(bounds) if bounds and lengths else None

    def differences(self, configuration: Configuration) -> str:
        """From the baseline, in the order of the space file, which puts first what matters first."""
        order = [parameter.name for parameter in self.spec.space.parameters]
        return differences_from_baseline(configuration, self.spec.baseline, order)

    def summary(self) -> str:
        left = self.remaining()
        trials = f"{len(self.searched)}" + (f"/{self.spec.budget.trials}" if self.spec.budget.trials else "")
        shown = f"trials {trials}{self._confirming()} | node time {duration(self.node_seconds)}"
        return shown + (f" | about {duration(left)} of it to go" if left is not None else "")

    @property
    def searched(self) -> list[TrialResult]:
        """A confirmation's runs come on top of the budget's trials."""
        return [result for result in self.results if result.origin is not Origin.CONFIRMATION]

    @property
    def _plan(self) -> Replicate | None:
        """Of the confirmation that is under way."""
        return self.results[-1].replicate if self.results else None

    def _confirming(self) -> str:
        plan = self._plan
        return "" if plan is None else f" | confirmation: round {plan.round} of at most {plan.rounds}"


class Lines:
    """One line a trial and one a level, for logs and pipes."""

    def __init__(self, spec: StudySpec, stream: TextIO, history: Sequence[TrialResult]) -> None:
        self._progress, self._stream = Progress(spec, history), stream

    def event(self, event: StudyEvent) -> None:
        if event.kind == "note":
            self._write(event.text)
        elif event.kind == "asked" and event.request is not None:
            what = self._progress.differences(event.request.configuration)
            self._write(f"trial {event.request.number} ({event.request.origin.value}): {what}")
        elif event.kind == "told" and event.result is not None:
            self._progress.results.append(event.result)
            for measurement in event.result.measurements:
                self._write("  " + level_line(measurement))
            self._write(trial_line(event.result, self._progress.baseline))
            self._write(f"  {self._progress.summary()}")

    def phase(self, phase: str) -> None:
        """Phases are for a screen; a log has the results."""

    def _write(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()


class Table:
    """Redrawn in place: what ran, what runs, what is left."""

    def __init__(self, spec: StudySpec, stream: TextIO, history: Sequence[TrialResult]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._progress = Progress(spec, history)
        self._running, self._phase, self._since = "", "", time.monotonic()
        self._notes: list[str] = []
        self.live = Live(console=Console(file=stream), get_renderable=self._render, refresh_per_second=4)

    def event(self, event: StudyEvent) -> None:
        if event.kind == "note":
            self._notes = [*self._notes, event.text][-3:]
        elif event.kind == "asked" and event.request is not None:
            what = self._progress.differences(event.request.configuration)
            self._running = f"{event.request.number}|{event.request.origin.value}|{what}"
            self._since = time.monotonic()
        elif event.kind == "told" and event.result is not None:
            self._running = ""
            self._progress.results.append(event.result)

    def phase(self, phase: str) -> None:
        self._phase = phase

    def _render(self) -> RenderableType:
        from rich.console import Group
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid(box=None, pad_edge=False, title=Text(self._title()), title_justify="left", expand=True)
        for heading, justify in (
            ("trial", "right"),
            ("from", "left"),
            ("state", "left"),
            ("score", "right"),
            ("vs baseline", "right"),
            ("node time", "right"),
        ):
            grid.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
        grid.add_column("configuration (against the baseline)", ratio=1, no_wrap=True, overflow="ellipsis")
        for result in self._progress.results[-_ROWS:]:
            grid.add_row(*(Text(cell) for cell in self._row(result)))
        if self._running:
            number, origin, what = self._running.split("|", 2)
            passed = f"{time.monotonic() - self._since:.0f} s ago"
            grid.add_row(number, origin, self._phase, "", "", passed, Text(what), style="bold")
        return Group(grid, Text(self._progress.summary(), style="dim"), *(Text(note) for note in self._notes))

    def _title(self) -> str:
        spec = self._progress.spec
        stamp = " [simulated]" if spec.engine.name == "simulated" else ""
        return f"{spec.name}{stamp}  {spec.engine.model}"

    def _row(self, result: TrialResult) -> tuple[str, ...]:
        baseline = self._progress.baseline
        score = f"{result.score.estimate.value:.1f}" if result.score is not None else "-"
        score = score if result.bound is None else f"at most {result.bound.at_most}"
        ratio = "-"
        if result.score is not None and baseline is not None and baseline.score is not None:
            ratio = f"{result.score.estimate.value / baseline.score.estimate.value - 1:+.1%}"
        state = result.failure.reason.word if result.failure is not None else state_word(result)
        what = self._progress.differences(result.configuration)
        return (str(result.number), result.origin.value, state, score, ratio, duration(result.node_seconds), what)
