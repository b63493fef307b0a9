"""/metrics in the Prometheus text format, under SGLang's names."""

from __future__ import annotations

from autotune.simulated_node.scheduler import Scheduler

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def metrics_text(scheduler: Scheduler, served_name: str) -> str:
    """Gauges of speed and acceptance move with the `Decode batch` lines only; counters are always right."""
    plan, totals = scheduler.plan, scheduler.totals
    capacity = max(1, plan.kv_capacity_tokens)
    length = totals.average_accept or 0.0
    rate = length / plan.tree.draft_tokens if plan.tree else 0.0
    rows: tuple[tuple[str, str, float], ...] = (
        ("num_running_reqs", "gauge", len(scheduler.running)),
        ("num_queue_reqs", "gauge", len(scheduler.waiting)),
        ("num_used_tokens", "gauge", scheduler.context_tokens),
        ("max_total_num_tokens", "gauge", plan.kv_capacity_tokens),
        ("token_usage", "gauge", scheduler.context_tokens / capacity),
        ("gen_throughput", "gauge", totals.last_throughput),
        ("spec_accept_length", "gauge", length),
        ("spec_accept_rate", "gauge", rate),
        ("prompt_tokens_total", "counter", totals.prompt),
        ("generation_tokens_total", "counter", totals.generated),
        ("num_requests_total", "counter", totals.requests),
        ("num_aborted_requests_total", "counter", totals.aborted),
    )
    label = served_name.replace("\\", "\\\\").replace('"', '\\"')
    lines = []
    for name, kind, value in rows:
        lines.append(f"# TYPE sglang:{name} {kind}")
        lines.append(f'sglang:{name}{{model_name="{label}"}} {float(value)}')
    return "\n".join(lines) + "\n"
