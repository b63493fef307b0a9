"""The same few prompts to every server, once its levels are measured: whether it gives the target's own answers.

Greedy, one request at a time, so that no batch stands between two servers. The prompts are no part of the study's, and
nothing is measured with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from autotune.domain.finding import Finding
from autotune.domain.trial import TrialRequest, TrialResult, TrialState
from autotune.domain.workload import LevelPlan, Prompt
from autotune.errors import LoadFailed
from autotune.load import Clock, prompt_source, run_level
from autotune.scoring.guarding.text_departure import Texts, text_finding
from autotune.trial_runner.site import HOST, Attempt, TrialSite

PROMPTS = 8
TOKENS = 32
"""Of each answer. All together they cost a server of 100 tok/s in a single stream three seconds."""
_SEED = 20_011
_SPARE = 40  # prompts beyond those: for warm-up, and what is in flight at the end


class FixedPrompts:
    """The same ones in the same order each time that it is made."""

    def __init__(self) -> None:
        self._prompts = prompt_source("coding", seed=_SEED).take(PROMPTS + _SPARE)
        self.position = 0

    @property
    def capacity(self) -> int:
        return len(self._prompts)

    def take(self, count: int) -> list[Prompt]:
        if self.position + count > len(self._prompts):
            raise LoadFailed(f"the text check has {len(self._prompts)} prompts, but {self.position + count} were asked")
        self.position += count
        return self._prompts[self.position - count : self.position]


class TextCheck:
    """Knows what the baseline answered, also in the part of the study before a resume."""

    def __init__(self, site: TrialSite, history: Iterable[TrialResult] = ()) -> None:
        self._site = site
        self._baseline: list[Texts] = []
        for result in history:
            if result.configuration == site.spec.baseline and result.state is TrialState.COMPLETE:
                self._baseline += site.folder.read_texts(result.number)

    def run(self, request: TrialRequest, attempt: Attempt, port: int, alive: Callable[[], str | None]) -> None:
        """The baseline is asked twice: how far it departs from itself. Adds the finding to `attempt`; raises
        TrialError where the server dies or gets stuck.

        A server that accepts drafts by decree is not asked: it is known not to give the target's answers."""
        if attempt.command is not None and self._site.engine.pretences(attempt.command):
            return
        self._site.on_phase("comparing text")
        is_baseline = request.configuration == self._site.spec.baseline
        asked = [self._ask(attempt.served_name, port, alive) for _ in range(2 if is_baseline else 1)]
        self._site.folder.write_texts(request.number, asked)
        if is_baseline:
            self._baseline += asked
        elif found := self.finding(asked[0]):
            attempt.findings.append(found)

    def finding(self, texts: Texts) -> Finding | None:
        return text_finding(texts, self._baseline)

    def _ask(self, served_name: str, port: int, alive: Callable[[], str | None]) -> Texts:
        site, spec = self._site, self._site.spec
        plan = replace(spec.plan(), max_tokens=TOKENS, temperature=0.0, ignore_eos=True, name="text check")
        run = run_level(
            HOST,
            port,
            wire=site.engine.wire_for(spec.workload.endpoint, served_name),
            plan=plan,
            level=LevelPlan(1, PROMPTS, spec.limits.request_patience_s),
            prompts=FixedPrompts(),
            clock=Clock(rate=site.engine.clock_rate(spec.engine), alive=alive),
        )
        return {record.prompt: record.text for record in run.records if record.ok and record.text}
