"""Whether the prompts last for the trials of the budget."""

from __future__ import annotations

from autotune.domain.study import StudySpec
from autotune.domain.workload import ASSUMED_TOKENS_PER_SECOND
from autotune.errors import InputError
from autotune.load import prompt_source


def require_prompts(spec: StudySpec) -> None:
    """One trial's prompts must exist; whether the whole budget's do is only known to be so with a trial budget."""
    per_trial = spec.plan().prompts
    trials = spec.budget.trials or 1
    capacity = _capacity(spec)
    if per_trial * trials > capacity:
        raise InputError(
            f"no prompt is sent twice, so the prompts must suffice for {trials} trials of {per_trial:,} requests "
            f"({per_trial * trials:,}), but `{spec.workload.prompts}` has {capacity:,}",
            hint="more prompts in the JSONL file, fewer trials, or fewer or lower levels",
        )


def prompt_warnings(spec: StudySpec, tokens_per_second: float = ASSUMED_TOKENS_PER_SECOND) -> tuple[str, ...]:
    """Where the rates are expected to want more prompts than there are: each trial keeps to its share, with a shorter
    window. `tokens_per_second` of one request is an assumption. Raises InputError for a file with faults."""
    if not spec.workload.rates:
        return ()
    plan, trials = spec.plan(), spec.budget.trials or 1
    each = sum(level.expected(plan.max_tokens / tokens_per_second)[1] for level in plan.levels)
    capacity = _capacity(spec)
    if each * trials <= capacity:
        return ()
    count = "1 trial" if trials == 1 else f"{trials} trials"
    return (
        f"`{spec.workload.prompts}` has {capacity:,} prompts, but {count} at these rates would take about "
        f"{each * trials:,} ({each:,} each, if a request gets {tokens_per_second:g} tok/s): warm-up and window may end "
        "before the longest answers do, and arrivals before the last answer",
    )


def _capacity(spec: StudySpec) -> int:
    return prompt_source(spec.workload.prompts, seed=spec.seed).capacity
