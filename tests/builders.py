"""Valid domain objects for tests. Each builder takes overrides by the names of the fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from autotune.domain.configuration import Configuration, Value
from autotune.domain.expression import parse
from autotune.domain.measurement import (
    ClientHealth,
    Comparison,
    Estimate,
    LevelRun,
    Measurement,
    Objective,
    Percentiles,
    RequestRecord,
    Score,
)
from autotune.domain.space import Constraint, IntRange, Parameter, SearchSpace, Values
from autotune.domain.study import Budget, EngineSpec, StudyResult, StudySpec
from autotune.domain.trial import (
    Failure,
    FailureReason,
    LaunchCommand,
    Origin,
    Provenance,
    ResolvedArguments,
    TrialResult,
    TrialState,
)
from autotune.domain.workload import LevelPlan, MeasurementPlan, Workload

BASELINE: Mapping[str, Value] = {
    "attention_backend": "flashinfer",
    "cuda_graph_max_bs": 128,
    "speculative_algorithm": None,
}


def configuration(**values: Value) -> Configuration:
    """The baseline of `spec()` with `values` put over it."""
    return Configuration({**BASELINE, **values})


def eagle(**values: Value) -> Configuration:
    """A valid speculative configuration of `spec()`."""
    chosen: dict[str, Value] = {
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 2,
        "speculative_eagle_topk": 1,
        "spec_v2": True,
    }
    return configuration(**{**chosen, **values})


def space(**overrides: Any) -> SearchSpace:
    speculating = parse("speculative_algorithm != unset")
    base = SearchSpace(
        parameters=(
            Parameter("speculative_algorithm", Values((None, "EAGLE3"))),
            Parameter("speculative_num_steps", IntRange(1, 8), when=speculating),
            Parameter("speculative_eagle_topk", Values((1, 2, 4, 8)), when=speculating),
            Parameter(
                "speculative_num_draft_tokens",
                Values((2, 3, 4, 6, 8, 16, 32)),
                when=parse("speculative_eagle_topk > 1"),
            ),
            Parameter("spec_v2", Values((True, False)), when=speculating),
            Parameter("cuda_graph_max_bs", Values((32, 64, 128, 256, 512))),
            Parameter("attention_backend", Values(("flashinfer", "triton", "trtllm_mha"))),
            Parameter("NCCL_PROTO", Values((None, "LL", "Simple")), env=True),
        ),
        constraints=(
            Constraint(
                parse(
                    "speculative_num_draft_tokens <= 1 + speculative_eagle_topk"
                    " + (speculative_num_steps - 1) * speculative_eagle_topk ** 2"
                )
            ),
        ),
        fixed={"tp_size": 8},
    )
    return replace(base, **overrides)


def workload(**overrides: Any) -> Workload:
    return replace(Workload(concurrency={1: 1.0, 10: 2.0}, max_tokens=64), **overrides)


def spec(**overrides: Any) -> StudySpec:
    """Two levels (1 and 10, weights 1 and 2), baseline without speculation, 60 trials."""
    base = StudySpec(
        name="kimi-eagle3",
        engine=EngineSpec(name="sglang", python="/opt/sglang/bin/python", model="/models/kimi", args={"tp-size": 8}),
        space=space(),
        baseline=configuration(),
        workload=workload(),
        objective=Objective(),
        budget=Budget(trials=60, hours=10),
    )
    return replace(base, **overrides)


def plan(*levels: int, **overrides: Any) -> MeasurementPlan:
    """At each of `levels` (1 and 10 if none are given) at least 5 requests a slot and 10 in all."""
    base = MeasurementPlan(
        levels=tuple(LevelPlan(level, max(5 * level, 10), patience_s=30.0) for level in levels or (1, 10)),
        max_tokens=64,
    )
    return replace(base, **overrides)


def record(
    *,
    sent_s: float = 0.0,
    chunks: Iterable[tuple[float, int]] | None = None,
    ttft_s: float = 0.1,
    gap_s: float = 0.02,
    tokens: int = 8,
    **overrides: Any,
) -> RequestRecord:
    """A request that streamed `tokens` tokens, one a chunk, the first `ttft_s` after `sent_s`, then every `gap_s`.

    `chunks`, pairs of (seconds on the client's clock, cumulative tokens), replaces that stream.
    """
    if chunks is None:
        chunks = [(sent_s + ttft_s + gap_s * index, index + 1) for index in range(tokens)]
    pairs = tuple(chunks)
    counted = pairs[-1][1] if pairs else None
    base = RequestRecord(
        identity="r0",
        prompt="p0",
        warmup=False,
        requested_tokens=counted or tokens,
        sent_s=sent_s,
        chunk_times_s=tuple(time for time, _count in pairs),
        chunk_tokens=tuple(count for _time, count in pairs),
        prompt_tokens=20,
        completion_tokens=counted,
        finish_reason="length",
    )
    return replace(base, **overrides)


def level_run(*records: RequestRecord, **overrides: Any) -> LevelRun:
    """A run of `records`, or, where none are given, of a steady closed loop at `concurrency` (2 if not said).

    Every slot sends its next request as soon as the last one ended: two warm-up requests of each slot, a window of
    40 requests of each, and what is in flight at its end cancelled. A request has 50 tokens in 1.02 s, so that the
    throughput is `concurrency` x 50 / 1.02 tok/s.
    """
    concurrency = overrides.get("concurrency", 2)
    window = overrides.get("window", (0.0, 10.0) if records else None)
    if not records:
        records, steady_window = _closed_loop(concurrency)
        window = overrides.get("window", steady_window)
    base = LevelRun(
        concurrency=concurrency,
        records=records,
        window=window,
        client=ClientHealth(lag_p99_s=0.0005, cpu_share=0.1),
        in_flight_minimum=concurrency,
    )
    return replace(base, **{key: value for key, value in overrides.items() if key != "window"})


def _closed_loop(concurrency: int) -> tuple[tuple[RequestRecord, ...], tuple[float, float]]:
    """Requests of 50 tokens, 20 ms apart, the first 40 ms after sending; slots start evenly spread."""
    tokens, ttft_s, gap_s, each = 50, 0.04, 0.02, 40
    length = ttft_s + gap_s * (tokens - 1)
    start, end = 2 * length, (2 + each) * length
    found = []
    for slot in range(concurrency):
        sent = length * slot / concurrency
        index = 0
        while sent < end:
            request = record(
                sent_s=sent, ttft_s=ttft_s, gap_s=gap_s, tokens=tokens, identity=f"s{slot}-{index}", warmup=sent < start
            )
            if sent + length > end:
                kept = [pair for pair in zip(request.chunk_times_s, request.chunk_tokens, strict=True) if pair[0] < end]
                request = replace(
                    request,
                    chunk_times_s=tuple(time for time, _count in kept),
                    chunk_tokens=tuple(count for _time, count in kept),
                    completion_tokens=kept[-1][1] if kept else None,
                    finish_reason=None,
                    cancelled=True,
                )
            found.append(request)
            sent, index = sent + length, index + 1
    return tuple(found), (start, end)


def estimate(value: float, half_width: float | None = None, *, batches: int = 10) -> Estimate:
    if half_width is None:
        return Estimate(value)
    return Estimate(value, value - half_width, value + half_width, batches=batches)


def percentiles(mean: float, **overrides: Any) -> Percentiles:
    return replace(Percentiles(mean=mean, p50=mean, p95=mean * 1.01, p99=mean * 1.01, count=50), **overrides)


def measurement(
    concurrency: int = 10, throughput: float | None = 453.2, half_width: float | None = 1.2, **overrides: Any
) -> Measurement:
    """`throughput` None: nothing was seen, so nothing is summarised."""
    if throughput is None:
        return replace(Measurement(concurrency=concurrency, requests_total=0, requests_ok=0), **overrides)
    rate = throughput / concurrency
    base = Measurement(
        concurrency=concurrency,
        requests_total=60,
        requests_ok=60,
        window_s=60.0,
        output_throughput=estimate(throughput, half_width),
        per_request_rate=rate,
        ttft_ms=percentiles(80.0),
        itl_ms=percentiles(1000 / rate),
        tpot_ms=percentiles(1000 / rate),
        e2e_s=percentiles(512 / rate),
        completion_tokens=60 * 512,
        client=ClientHealth(lag_p99_s=0.0005, cpu_share=0.1),
    )
    return replace(base, **overrides)


def score(value: float = 333.0, half_width: float | None = 1.0, **overrides: Any) -> Score:
    return replace(Score("weighted_throughput", estimate(value, half_width), {1: 92.7, 10: 453.2}), **overrides)


def command(*extra: str, **overrides: Any) -> LaunchCommand:
    """What a trial launched: SGLang on port 41234, with `extra` put at the end of argv."""
    base = LaunchCommand(
        argv=(
            "/opt/sglang/bin/python",
            "-m",
            "sglang.launch_server",
            "--model-path",
            "/models/kimi",
            "--tp-size",
            "8",
            "--host",
            "127.0.0.1",
            "--port",
            "41234",
            "--served-model-name",
            "autotune-kimi-eagle3-t0-a1b2c3",
            *extra,
        ),
        environment={"PATH": "/usr/bin:/bin", "HOME": "/home/op", "NCCL_PROTO": "LL"},
        chosen={"NCCL_PROTO": "LL"},
        dropped=("NCCL_ALGO",),
    )
    return replace(base, **overrides)


def provenance(**overrides: Any) -> Provenance:
    base = Provenance(
        engine="sglang",
        engine_version="0.5.23",
        simulated=False,
        node={"gpu": "8 x RTX PRO 6000 Blackwell", "driver": "580.95"},
        tuner={"version": "0.1.0", "commit": "abc1234"},
    )
    return replace(base, **overrides)


def failure(**overrides: Any) -> Failure:
    base = Failure(
        FailureReason.OUT_OF_MEMORY,
        "the server ran out of GPU memory while it started",
        evidence="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        hint="lower mem_fraction_static or cuda_graph_max_bs",
        exit_status=1,
    )
    return replace(base, **overrides)


def trial(
    number: int = 0, value: float | None = 333.0, half_width: float | None = 1.0, **overrides: Any
) -> TrialResult:
    """Trial 0 is the baseline; a later one is greedy, with a digest of its own. COMPLETE with score `value` and
    throughputs in proportion to it; `value` None: INFEASIBLE by lack of memory, with neither figures nor score."""
    config = configuration() if number == 0 else eagle(speculative_num_steps=1 + (number - 1) % 8)
    base = TrialResult(
        number=number,
        configuration=config,
        origin=Origin.BASELINE if number == 0 else Origin.GREEDY,
        state=TrialState.COMPLETE,
        started_at=f"2026-01-01T00:{number % 60:02d}:00Z",
        node_seconds=300.0,
        startup_seconds=120.0,
        command=command(),
        resolved=ResolvedArguments({"tp_size": 8, "max_running_requests": 256}, version="0.5.23"),
        provenance=provenance(),
    )
    if value is None:
        base = replace(base, state=TrialState.INFEASIBLE, failure=failure(), resolved=None, startup_seconds=None)
    else:
        low, high = 92.7 * value / 333.0, 453.2 * value / 333.0
        base = replace(
            base,
            measurements=(measurement(1, low, half_width), measurement(10, high, half_width)),
            score=score(value, half_width, per_level={1: low, 10: high}),
        )
    return replace(base, **overrides)


def study_result(*trials: TrialResult, **overrides: Any) -> StudyResult:
    """The baseline (333.0), a better trial 1 (+7.1 % ± 1.3) and a failed trial 2, unless `trials` are given."""
    if not trials:
        trials = (trial(0), trial(1, 356.6), trial(2, None))
        overrides.setdefault("comparison", comparison())
    return replace(StudyResult(spec=spec(), trials=trials), **overrides)


def comparison(ratio: float = 1.071, half_width: float | None = 0.013, verdict: str = "better") -> Comparison:
    return Comparison(estimate(ratio, half_width), verdict)
