"""How far greedy text of one server departs from another's, on the same prompts.

Two right servers do not give the same text for ever: sums in another order (another attention kernel, a batch of
draft tokens verified together) turn a near tie now and then, and from there on the texts are different ones. That
comes at any place, seldom at the first tokens. A server that accepts what its target would not say departs at once. So
what is compared is not whether texts are equal, but in how many of them the first difference comes early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.domain.finding import Finding
from autotune.scoring.guarding.guards import GUARDS, finding

EARLY = 0.25
"""Of the baseline's text, in characters."""
LEAST_TEXTS = 4

Texts = Mapping[str, str]
"""Text by the identity of its prompt."""


@dataclass(frozen=True)
class Departure:
    """`early` of `count` texts differ within their first quarter; `equal` are the same to the end."""

    count: int
    early: int
    equal: int

    @property
    def share(self) -> float:
        return self.early / self.count if self.count else 0.0

    def __add__(self, other: Departure) -> Departure:
        return Departure(self.count + other.count, self.early + other.early, self.equal + other.equal)


def departure(texts: Texts, reference: Texts) -> Departure:
    """Of the prompts that both have an answer to."""
    pairs = [(texts[prompt], text) for prompt, text in reference.items() if text and texts.get(prompt)]
    early = sum(_common(mine, theirs) < EARLY * len(theirs) for mine, theirs in pairs)
    return Departure(len(pairs), early, sum(mine == theirs for mine, theirs in pairs))


def text_finding(texts: Texts, baseline: Sequence[Texts]) -> Finding | None:
    """`baseline`: what it gave each time that it was asked, at least twice, or nothing is known of its own departure.

    None where nothing speaks against the text, or too few prompts were answered to say so.
    """
    if len(baseline) < 2:
        return None
    own = sum((departure(again, baseline[0]) for again in baseline[1:]), Departure(0, 0, 0))
    seen = departure(texts, baseline[0])
    if min(seen.count, own.count) < LEAST_TEXTS or seen.share - own.share <= GUARDS["text"].threshold:
        return None
    return finding(
        "text",
        f"greedy text leaves the baseline's within its first quarter on {seen.early} of {seen.count} prompts, and the "
        f"baseline's own on {own.early} of {own.count}: these are not the target's answers",
        None,
        early_share=seen.share,
        baseline_early_share=own.share,
    )


def _common(mine: str, theirs: str) -> int:
    for place, (left, right) in enumerate(zip(mine, theirs, strict=False)):
        if left != right:
            return place
    return min(len(mine), len(theirs))
