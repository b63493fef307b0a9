"""Effects and interactions out of the fitted model: what is asked, what is answered, and when nothing is said."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from made_up_node import spec_of
from made_up_throughput import LEVELS, SPACE, candidates, observation, true_accept, true_cycle

from autotune.domain.configuration import Configuration
from autotune.domain.explanation import Effect, Modelled
from autotune.domain.measurement import Estimate, Measurement, Objective, Score
from autotune.domain.study import StudySpec
from autotune.domain.trial import Failure, FailureReason, Origin, TrialResult, TrialState
from autotune.domain.workload import Workload
from autotune.scoring import score
from autotune.study.explaining.answers import Answers
from autotune.study.explaining.explanation import explain
from autotune.study.explaining.modelled import Known, _representative, modelled
from autotune.study.explaining.surroundings import Step
from autotune.study.model.averaged import AveragedGreyBox
from autotune.study.model.greybox import GreyBox

BASELINE = Configuration({"speculative_algorithm": None, "graph": 64, "NCCL_PROTO": None, "backend": "a"})
BEST = Configuration(
    {"speculative_algorithm": "E", "speculative_num_steps": 2, "graph": 256, "NCCL_PROTO": "LL", "backend": "b"}
)
SPEC = replace(
    spec_of(SPACE, baseline=BASELINE, known_good=()),
    workload=Workload(dict.fromkeys(LEVELS, 1.0)),
    objective=Objective("weighted_speedup"),
)
WINDOW, LAUNCH = 0.008, 0.006
Law = Callable[[Configuration, int], float]


def separable(configuration: Configuration, level: int) -> float:
    return level * true_accept(configuration) / true_cycle(configuration, level)


def interacting(configuration: Configuration, level: int) -> float:
    """LL does nothing but harm under backend c."""
    both = configuration["NCCL_PROTO"] == "LL" and configuration["backend"] == "c"
    return separable(configuration, level) * (0.6 if both else 1.0)


def trial(
    number: int,
    configuration: Configuration,
    rng: random.Random,
    law: Law = separable,
    first: Sequence[Measurement] = (),
) -> TrialResult:
    launch = math.exp(rng.gauss(0.0, LAUNCH))
    measured = []
    for level in LEVELS:
        rate = law(configuration, level) * launch * math.exp(rng.gauss(0.0, WINDOW))
        accept = true_accept(configuration) if configuration["speculative_algorithm"] is not None else None
        interval = Estimate(rate, rate * (1 - 2 * WINDOW), rate * (1 + 2 * WINDOW), 20)
        measured.append(Measurement(level, 10, 10, output_throughput=interval, accept_length=accept))
    made = score(measured, SPEC.objective, SPEC.workload.weights, first or measured)
    assert made is not None
    return TrialResult(
        number, configuration, Origin.SAMPLER, TrialState.COMPLETE, "", 1.0, measurements=tuple(measured), score=made
    )


@functools.cache
def study(law: Law = separable, count: int = 40, seed: int = 0) -> tuple[TrialResult, ...]:
    """The baseline, then others at random; none is a step from another but by chance."""
    rng = random.Random(seed)
    everything = [c for c in candidates() if c != BASELINE]
    rng.shuffle(everything)
    found = [trial(0, BASELINE, rng, law)]
    for number, configuration in enumerate(everything[: count - 1], start=1):
        found.append(trial(number, configuration, rng, law, found[0].measurements))
    return tuple(found)


@functools.cache
def usual() -> Modelled:
    return modelled(SPEC, study())


def true_effect(effect: Effect, best: Configuration, law: Law = separable) -> float:
    def at(word: str) -> float:
        values = {str(v) if v is not None else "unset": v for v in _domain(effect.parameter)}
        made = SPACE.normalise({**best, effect.parameter: values[word]})
        return sum(math.log(law(made, level)) for level in LEVELS) / len(LEVELS)

    return at(effect.after) - at(effect.before)


def _domain(name: str) -> Sequence[object]:
    found = SPACE.parameter(name)
    assert found is not None
    return found.domain.grid()


def best_of(results: Sequence[TrialResult], number: int | None) -> Configuration:
    return next(result.configuration for result in results if result.number == number)


# The posterior of several configurations together


def fitted(count: int = 20) -> tuple[GreyBox, list[Configuration]]:
    rng = random.Random(3)
    everything = candidates()
    rng.shuffle(everything)
    model = GreyBox(SPACE, LEVELS)
    model.fit([observation(configuration, rng) for configuration in everything[:count]])
    return model, everything


def test_the_joint_posterior_has_the_means_and_the_variances_of_the_single_ones() -> None:
    model, everything = fitted()
    asked = everything[10:30]
    single, (mean, covariance) = model.predict(asked), model.joint(asked)
    assert np.allclose(mean, single.mean)
    for index in range(len(asked)):
        assert np.allclose(covariance[index, :, index, :], single.covariance[index], atol=1e-8)
    flat = covariance.reshape(len(asked) * len(LEVELS), -1)
    assert np.linalg.eigvalsh(flat).min() > -1e-8


def test_a_difference_is_more_certain_than_its_two_ends() -> None:
    model, _everything = fitted(3)
    strange = Configuration({**BEST, "backend": "c", "speculative_num_steps": 4, "graph": 16})
    _mean, covariance = model.joint([strange, strange.replace(NCCL_PROTO="Simple")])
    low, high = covariance[0, 0, 0, 0], covariance[1, 0, 1, 0]
    assert low + high - 2 * covariance[0, 0, 1, 0] < 0.7 * (low + high)


def test_what_drafts_nothing_has_an_accept_length_of_one_for_certain_in_the_joint_posterior_too() -> None:
    rng = random.Random(0)
    model = GreyBox(SPACE, LEVELS)
    plain = BASELINE.replace(graph=256)
    model.fit([observation(BASELINE, rng), observation(BEST, rng)])
    _mean, covariance = model._accept.joint([plain, BEST, plain.replace(backend="c")])
    assert covariance[0, 0] == covariance[0, 1] == covariance[2, 2] == 0.0
    assert covariance[1, 1] > 0.0


def test_the_variance_of_what_was_left_out_is_that_of_a_model_that_never_saw_it() -> None:
    rng = random.Random(5)
    seen = [observation(configuration, rng) for configuration in candidates()[::7]]
    whole, without = GreyBox(SPACE, LEVELS, learn_scales=False), GreyBox(SPACE, LEVELS, learn_scales=False)
    whole.fit(seen)
    without.fit(seen[1:])
    noise = whole._noise(seen[:1] * len(seen))[: len(LEVELS), : len(LEVELS)]
    expected = without.predict([seen[0].configuration]).covariance[0] + noise
    if seen[0].accept:
        expected = expected + whole._scales.accept_noise
    assert np.allclose(whole.left_out_covariance()[0], expected, rtol=1e-4, atol=1e-9)


def test_scales_that_made_the_data_have_more_evidence_than_scales_far_off() -> None:
    fits = AveragedGreyBox(SPACE, LEVELS)
    fits.fit([observation(configuration, random.Random(i)) for i, configuration in enumerate(candidates()[::4])])
    weights = [weight for weight, _model in fits._fits]
    assert math.isclose(sum(weights), 1.0)
    assert fits.likeliest()._scales.trial_noise < 0.02**2, "the node has no noise from launch to launch"


# What is answered


def test_factors_have_effects_although_no_two_trials_differ_in_them_alone() -> None:
    points = [result.configuration for result in study()]
    lonely = [study()[0]]
    for result in study()[1:]:  # drop whatever would make a clean pair
        apart = [
            sum(result.configuration.get(p.name) != o.configuration.get(p.name) for p in SPACE.parameters)
            for o in lonely
        ]
        if min(apart) >= 2:
            lonely.append(result)
    known = explain(SPEC, lonely)
    assert len(lonely) < len(points)
    assert known.modelled is not None
    assert {effect.parameter for effect in known.modelled.effects} > {"NCCL_PROTO", "backend"}
    assert not [effect for effect in known.effects if effect.parameter in {"NCCL_PROTO", "backend"}]


def test_intervals_hold_the_truth_and_are_narrow() -> None:
    held, widths = [], []
    for seed in range(3):
        found = modelled(SPEC, study(seed=seed))
        best = best_of(study(seed=seed), found.trial)
        for effect in found.effects:
            low, high = effect.ratio.low, effect.ratio.high
            assert low is not None
            assert high is not None
            held.append(low <= math.exp(true_effect(effect, best)) <= high)
            widths.append(high / low - 1)
    assert len(held) >= 20
    assert sum(held) >= 0.85 * len(held)
    assert sorted(widths)[len(widths) // 2] < 0.1


def test_an_effect_has_every_level_and_the_objectives_lies_among_them() -> None:
    for effect in usual().effects:
        assert set(effect.per_level) == set(LEVELS)
        ratios = [ratio.value for ratio in effect.per_level.values()]
        assert min(ratios) - 1e-9 <= effect.ratio.value <= max(ratios) + 1e-9
        assert effect.contexts == 0


def test_the_configuration_that_was_settled_on_is_the_one_whose_surroundings_are_shown() -> None:
    chosen = study()[7]
    assert modelled(SPEC, study(), chosen.configuration).trial == chosen.number


def test_an_interaction_of_the_node_is_found_by_the_model_with_the_effect_under_both_settings() -> None:
    results = study(interacting, count=80)
    best = next(
        r.configuration for r in results if r.configuration["NCCL_PROTO"] == "LL" and r.configuration["backend"] == "c"
    )
    found = modelled(SPEC, results, best)
    one = next(i for i in found.interactions if {i.parameter, *i.others} == {"NCCL_PROTO", "backend"})
    assert one.ratios[0].value > 1.1 > 0.9 > one.ratios[1].value
    assert one.p_value < 0.01


def test_where_factors_multiply_the_model_reports_no_interaction_of_theirs() -> None:
    found = usual()
    assert found.looked_at >= 3
    assert not [i for i in found.interactions if {i.parameter, *i.others} <= {"NCCL_PROTO", "backend"}]


# When nothing is said


def test_too_few_trials_say_nothing_and_how_many_are_needed_is_told() -> None:
    found = modelled(SPEC, study()[:5])
    assert found.effects == ()
    assert "5 complete trials" in found.withheld
    assert "8 are needed" in found.withheld


def test_a_model_that_foretells_nothing_says_nothing() -> None:
    rng = random.Random(1)

    def chance(_configuration: Configuration, level: int) -> float:
        return level * math.exp(rng.gauss(0.0, 0.5))

    found = modelled(SPEC, study(chance, count=16))
    assert found.effects == ()
    assert "20 % are needed" in found.withheld
    assert found.foretold is not None
    assert found.foretold < 0.2


def test_trials_that_are_all_one_configuration_say_nothing() -> None:
    same = [replace(trial(number, BASELINE, random.Random(number))) for number in range(10)]
    assert "too few configurations differ" in modelled(SPEC, same).withheld


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, objective=Objective("weighted_goodput")),
        replace(SPEC, workload=replace(SPEC.workload, rates={4.0: 1.0})),
    ],
)
def test_an_objective_that_the_model_does_not_foretell_has_no_effects_by_it(spec: StudySpec) -> None:
    assert "the objective is another" in modelled(spec, study()).withheld


def test_confirmations_duplicates_and_crashes_are_nothing_that_the_model_is_fitted_to() -> None:
    whole = study()[:20]
    confirmed = replace(whole[3], number=30, origin=Origin.CONFIRMATION)
    double = replace(whole[4], number=31, duplicate_of=4)
    why = Failure(FailureReason.OUT_OF_MEMORY, "it did not start")
    crashed = TrialResult(32, BEST, Origin.SAMPLER, TrialState.INFEASIBLE, "", 1.0, failure=why)
    assert modelled(SPEC, (*whole, confirmed, double)) == modelled(SPEC, whole)
    assert modelled(SPEC, (*whole, crashed)).fitted == 20


def test_a_trial_without_all_levels_is_left_out() -> None:
    halved = replace(
        study()[5], measurements=study()[5].measurements[:1], score=Score("weighted_speedup", Estimate(1.0))
    )
    assert modelled(SPEC, (*study()[:5], halved, *study()[6:20])).fitted == 19


def test_every_pair_of_changes_is_looked_at_once() -> None:
    found = usual()
    factors = {effect.parameter for effect in found.effects}
    most = len(list(itertools.combinations(factors, 2)))
    assert 0 < found.looked_at <= most


# How sure it is


def test_where_left_out_trials_are_further_off_than_the_model_expects_every_interval_is_stretched_by_that() -> None:
    known = Known(SPEC, study())
    answers = Answers(SPEC, known.observations, decompose=True)
    steps = known.surroundings().steps(BASELINE)
    before = answers.effects(steps)
    answers.widened *= 2.0
    for narrow, wide in zip(before, answers.effects(steps), strict=True):
        assert _width(wide.ratio) == pytest.approx(2.0 * _width(narrow.ratio))
        assert wide.ratio.value == narrow.ratio.value


def test_a_node_whose_trials_lie_about_their_noise_is_stretched_for_or_held_to_be_noisy() -> None:
    sure = [replace(one, deviation=dict.fromkeys(LEVELS, 1e-4)) for one in Known(SPEC, study()).observations]
    told = [_width(e.ratio) for e in Answers(SPEC, sure, decompose=True).effects(_steps())]
    honest = [_width(e.ratio) for e in usual().effects]
    assert sorted(told)[len(told) // 2] > 0.5 * sorted(honest)[len(honest) // 2]


def test_of_very_many_trials_the_best_and_the_latest_are_fitted() -> None:
    seen = [(float(-number), observation(BASELINE, random.Random(number))) for number in range(50)]
    kept = _representative(seen, 20)
    assert len(kept) == 20
    assert kept[-1] is seen[-1][1]
    assert kept[0] is seen[0][1]


def _steps() -> list[Step]:
    return Known(SPEC, study()).surroundings().steps(BASELINE)


def _width(ratio: Estimate) -> float:
    assert ratio.low is not None
    assert ratio.high is not None
    return math.log(ratio.high / ratio.low)
