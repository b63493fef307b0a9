"""What the accept length of a level says of the draft: nothing accepted, or more than can be."""

from __future__ import annotations

from autotune.domain.finding import Finding
from autotune.domain.measurement import LevelRun
from autotune.domain.models import Speculation
from autotune.scoring.guarding.guards import GUARDS, finding
from autotune.scoring.window import answered_inside, ended_inside

ENOUGH_PASSES = 200
"""With so many verify passes, a draft that is right one time in eight falls below the alarm less than once in
3,000 levels (binomial: 25 accepted tokens expected, at most 10 seen). Ten answers of 32 tokens make 310."""

SPARE_PASSES = 2
"""An overlapping scheduler may run so many passes past the end of an answer, and count them."""

NOTHING_ACCEPTED = GUARDS["nothing_accepted"].threshold
"""Tokens per pass. A pass yields one token of the target's own, so that 1 is nothing accepted, and a trained draft
accepts half a token and more. Broken pairs stand at 1.00 to 1.02: what a draft guesses by luck."""


def acceptance_findings(run: LevelRun, speculation: Speculation | None) -> tuple[Finding, ...]:
    """None of them makes a measurement invalid.

    `speculation` None: the server does not say how it speculates; that it does, the verify passes show. The first
    token of an answer comes from the prefill and out of no pass: it is not counted here, since at 32 tokens an
    answer it alone would lift 1.00 to 1.03.
    """
    if run.window is None:
        return ()
    good = answered_inside(ended_inside(run.records, run.window), run.window)
    known = [(r.completion_tokens, r.verify_count) for r in good if r.completion_tokens and r.verify_count]
    passes = sum(verified for _tokens, verified in known)
    if passes < ENOUGH_PASSES:
        return ()
    tokens = sum(tokens for tokens, _verified in known)
    length, decoded = tokens / passes, (tokens - len(known)) / passes
    values = {"accept_length": length, "decoded_per_pass": decoded, "verify_passes": passes}
    most = speculation.draft_tokens if speculation is not None else None
    if passes > tokens + SPARE_PASSES * len(known) or (most is not None and decoded > most):
        bound = f"1 and {most} (the draft tokens)" if most is not None else "1 and the draft tokens"
        said = f"accept length {length:.2f} over {passes:,} verify passes, where it must lie between {bound}"
        text = f"{said}: the server's counters, or its verification, are broken"
        return (finding("acceptance_bounds", text, run.concurrency, **values),)
    if decoded > NOTHING_ACCEPTED:
        return ()
    shown = (
        f"accept length {length:.2f} over {passes:,} verify passes ({decoded:.2f} without each answer's first token)"
    )
    if speculation is not None and not speculation.has_draft_model:
        text = f"{shown}: {speculation.algorithm} found next to nothing that it could propose in this text"
        return (finding("nothing_proposed", text, run.concurrency, **values),)
    text = f"{shown}: the draft does not fit the target or is broken; speculation costs and brings nothing"
    return (finding("nothing_accepted", text, run.concurrency, **values),)
