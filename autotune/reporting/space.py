"""The space read back, for `autotune check`."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.domain.configuration import show_value
from autotune.domain.level import label
from autotune.domain.space import FloatRange, IntRange, Parameter, SpaceCount, Values
from autotune.domain.study import StudySpec
from autotune.domain.trial import EngineVersion
from autotune.reporting.figures import duration
from autotune.reporting.sections.slo import slo_lines


def space_summary(
    spec: StudySpec, counts: SpaceCount, *, versions: Mapping[str, EngineVersion], tokens_per_second: float
) -> str:
    """Plain text. `versions` by interpreter, empty if none is known. `tokens_per_second` of one request is an
    assumption of the reader's, and is shown as one."""
    lines = [f"study      {spec.name}"]
    lines += _engine(spec, versions)
    lines.append(f"model      {spec.engine.model}")
    lines.append(f"baseline   {spec.baseline}")
    lines.extend(f"known good {config}" for config in spec.known_good)
    lines += ["", *_parameters(spec), "", *_sizes(counts), "", *_levels(spec, tokens_per_second), *slo_lines(spec)]
    return "\n".join(lines)


def _engine(spec: StudySpec, versions: Mapping[str, EngineVersion]) -> list[str]:
    """One line; with several interpreters, one for each, as they may have different versions."""
    shown = {python or "": (python, versions.get(python or "")) for python in spec.engine.interpreters}
    return [
        f"engine     {spec.engine.name} {version.text if version is not None else '(version unknown)'}"
        + (f"   {python}" if len(shown) > 1 else "")
        for python, version in shown.values()
    ]


def _parameters(spec: StudySpec) -> list[str]:
    if not spec.space.parameters:
        return ["parameters (none: the study measures the baseline and ends)"]
    lines = ["parameters"]
    width = max(len(parameter.name) for parameter in spec.space.parameters)
    for parameter in spec.space.parameters:
        condition = f"   when {parameter.when}" if parameter.when is not None else ""
        kind = "   (environment)" if parameter.env else ""
        lines.append(f"  {parameter.name:<{width}}  {_domain(parameter)}{kind}{condition}")
    lines.extend(f"  constraint: {constraint}" for constraint in spec.space.constraints)
    return lines


def _domain(parameter: Parameter) -> str:
    domain = parameter.domain
    if isinstance(domain, Values):
        return ", ".join(show_value(choice) for choice in domain.choices)
    scale = ", logarithmic" if domain.log else ""
    step = f", step {domain.step:g}" if domain.step is not None and domain.step != 1 else ""
    assert isinstance(domain, IntRange | FloatRange)
    return f"{domain.low:g} to {domain.high:g}{step}{scale}"


def _sizes(counts: SpaceCount) -> list[str]:
    bound = "" if counts.exact else "at least "
    lines = [f"configurations {bound}{counts.valid:,} valid of {counts.combinations:,} combinations on the grid"]
    lines.append(f"               {bound}{counts.servers:,} different servers")
    lines.extend(f"  refused {number:>7,}  {rule}" for rule, number in counts.refused.items())
    lines.extend(f"  remark  {number:>7,}  {rule}" for rule, number in counts.remarked.items())
    return lines


def _levels(spec: StudySpec, tokens_per_second: float) -> list[str]:
    plan, lines = spec.plan(), ["levels         weight  requests  tokens      estimated node time"]
    total, prompts = 0.0, 0
    for level in plan.levels:
        requests, level_prompts, seconds = level.expected(plan.max_tokens / tokens_per_second)
        total, prompts = total + seconds, prompts + level_prompts
        weight = spec.workload.weights[level.level]
        tokens = requests * plan.max_tokens
        lines.append(f"  {label(level.level):<12} {weight:>7g} {requests:>9,} {tokens:>10,}   {duration(seconds):>12}")
    if spec.workload.precision is not None:
        most = sum(level.most_prompts for level in plan.levels)
        lines.append(
            f"  precision {spec.workload.precision:.2g}: the requests are a floor; at most {most:,} prompts a trial"
        )
    lines.append(
        f"  one trial: {prompts:,} prompts, about {duration(total)} of measuring plus start-up, "
        f"if each request gets {tokens_per_second:g} tok/s (an assumption: --assume)"
    )
    budget = spec.budget
    bounds = [
        f"{budget.trials} trials" if budget.trials else "",
        f"{budget.hours:g} node hours" if budget.hours else "",
    ]
    lines.append(
        f"  budget: {' or '.join(filter(None, bounds)) or 'none: it ends when every configuration was measured'}"
    )
    if budget.trials:
        lines.append(f"  {budget.trials} trials: about {duration(total * budget.trials)} of measuring")
    if budget.confirm is not None:
        confirm = budget.confirm
        lines.append(
            f"  then a confirmation: up to {confirm.finalists} finalists and the baseline, at most {confirm.rounds} "
            f"fresh servers of each, in {confirm.share * 100:g} % of the node time"
        )
    return lines
