"""Whether the prompts that are held out last for the confirmation that the space file asks for."""

from __future__ import annotations

from dataclasses import replace

from autotune.domain.study import StudySpec
from autotune.load import prompt_source

WANTED_ROUNDS = 4


def confirmation_within(spec: StudySpec, used: int) -> tuple[StudySpec, tuple[str, ...]]:
    """The spec with a confirmation that its held-out prompts suffice for, `used` of them being gone; and what to tell
    the operator where that is a smaller one than was asked for, or none."""
    confirm = spec.budget.confirm
    if confirm is None:
        return spec, ()
    each = spec.plan().prompts
    left = prompt_source(spec.workload.prompts, seed=spec.seed, held_out=True).capacity - used
    finalists, rounds = confirm.finalists, confirm.rounds
    if left >= (finalists + 1) * rounds * each:
        return spec, ()
    while finalists > 1 and left // ((finalists + 1) * each) < min(WANTED_ROUNDS, rounds):
        finalists -= 1
    rounds = min(rounds, left // ((finalists + 1) * each))
    said = f"`{spec.workload.prompts}` holds back {max(0, left):,} prompts for the confirmation, {each:,} for each run"
    if rounds < 3:
        return replace(spec, budget=replace(spec.budget, confirm=None)), (f"{said}: the winner is not confirmed",)
    smaller = replace(confirm, finalists=finalists, rounds=rounds)
    told = f"{said}: at most {finalists} finalists and {rounds} rounds"
    return replace(spec, budget=replace(spec.budget, confirm=smaller)), (told,)
