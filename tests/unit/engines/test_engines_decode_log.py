"""SGLang's lines on decode steps, in the forms that its versions and options give them."""

from pathlib import Path

import pytest

from autotune import engines
from autotune.engines.dialect.decode_log import DecodeLine, decode_lines, server_window

SAMPLES = Path(__file__).parent / "samples"

FORMS = {
    "0.5.15 with EAGLE3": (
        "[2026-11-29 15:22:55] Decode batch, #running-req: 3, #token: 118, token usage: 0.00, accept len: 2.40, "
        "accept rate: 0.47, cuda graph: True, gen throughput (token/s): 17.25, #queue-req: 2\n",
        DecodeLine(0, 3, 2, True, 2.40),
    ),
    "no speculation, one of several ranks": (
        "[2026-11-29 15:26:24 DP1 TP4 EP4] Decode batch, #running-req: 1, #token: 60, token usage: 0.00, "
        "cuda graph: False, gen throughput (token/s): 3.63, #queue-req: 0\n",
        DecodeLine(1, 1, 0, False, None),
    ),
    "on a CPU": (
        "[2026-11-29 15:26:24] Decode batch, #running-req: 4, #token: 60, token usage: 0.01, "
        "cpu graph: False, gen throughput (token/s): 83.63, #queue-req: 0\n",
        DecodeLine(0, 4, 0, False, None),
    ),
    "sliding window, numbered, with capped blocks": (
        "[2026-11-29 15:26:24 TP0] Decode batch [812], #running-req: 7, #full token: 60, full token usage: 0.01, "
        "#swa token: 12, swa token usage: 0.00, accept len: 3.10, accept rate: 0.70, cap len: 4.00, "
        "block accept len: 2.00, cuda graph: True, gen throughput (token/s): 83.63, #queue-req: 11, "
        "est. decode TFLOPS/s (per GPU): 1.00\n",
        DecodeLine(0, 7, 11, True, 3.10),
    ),
    "before graphs were told": (
        "[2025-01-02 03:04:05] Decode batch. #running-req: 2, #token: 9, token usage: 0.00, "
        "gen throughput (token/s): 5.00, #queue-req: 0, \n",
        DecodeLine(0, 2, 0, None, None),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_line_is_read_in_every_form(form: str) -> None:
    text, line = FORMS[form]
    assert decode_lines(text) == (line,)


@pytest.mark.parametrize(
    "text",
    [
        "[2026-11-29 15:26:24] Prefill batch, #new-seq: 1, #new-token: 9, #running-req: 3, #queue-req: 0\n",
        "somebody wrote: Decode batch, #running-req: 3\n",
        "[2026-11-29 15:26:24] Decode batch, #token: 60, token usage: 0.00\n",
        "[2026-11-29 15:26:24] Decode batch, #running-req: 3, #queue-req: 1",  # still being written
        "",
    ],
)
def test_what_is_no_whole_line_of_decode_steps_is_passed_over(text: str) -> None:
    assert decode_lines(text) == ()
    assert server_window(text) is None


def line(running: int, queued: int = 0, *, graph: bool = True, accept: float | None = None, rank: str = "") -> str:
    shown = "" if accept is None else f"accept len: {accept:.2f}, accept rate: 0.10, "
    return (
        f"[2026-11-29 15:22:55{rank}] Decode batch, #running-req: {running}, #token: 1, token usage: 0.00, {shown}"
        f"cuda graph: {graph}, gen throughput (token/s): 1.00, #queue-req: {queued}\n"
    )


def test_a_window_is_the_mean_of_its_lines() -> None:
    seen = server_window(line(4, 2) + "noise\n" + line(8, 0, graph=False) + line(8) + line(8))
    assert seen is not None
    assert (seen.lines, seen.running, seen.running_median) == (4, 7.0, 8.0)
    assert (seen.queued, seen.eager_share, seen.accept_length) == (0.5, 0.25, None)


def test_accept_lengths_weigh_as_much_as_requests_ran() -> None:
    seen = server_window(line(1, accept=4.0) + line(3, accept=2.0) + line(2, accept=0.0))
    assert seen is not None
    assert seen.accept_length == pytest.approx(2.5)


def test_replicas_share_the_load_and_are_added() -> None:
    seen = server_window(line(4, 1, rank=" DP0 TP0") + line(6, 1, rank=" DP0 TP0") + line(3, 2, rank=" DP1 TP1"))
    assert seen is not None
    assert (seen.running, seen.running_median, seen.queued) == (8.0, 8.0, 3.0)


@pytest.mark.parametrize(
    ("sample", "lines", "accept"),
    [
        ("stopped_plain_0_5_15.log", 3, None),
        ("stopped_eagle3_0_5_15.log", 3, 2.93),
        ("stopped_ngram_0_5_15.log", 3, 1.59),
    ],
)
def test_logs_of_real_servers_are_read(sample: str, lines: int, accept: float | None) -> None:
    seen = server_window((SAMPLES / sample).read_text())
    assert seen is not None
    assert (seen.lines, seen.eager_share) == (lines, 0.0)
    assert seen.accept_length == (None if accept is None else pytest.approx(accept, abs=0.01))


@pytest.mark.parametrize(
    ("values", "ceiling"),
    [
        ('{"tp_size": 8, "cuda_graph_max_bs": 128}', 128),
        ('{"tp_size": 8, "cuda_graph_max_bs": 30, "cuda_graph_bs": [1, 2, 4, 8, 16, 24]}', 24),
        ('{"tp_size": 8, "cuda_graph_max_bs": 128, "disable_cuda_graph": true}', 0),
        ('{"tp_size": 8, "cuda_graph_max_bs": 128, "disable_decode_cuda_graph": true}', 0),
        ('{"tp_size": 8, "cuda_graph_max_bs": 128, "attention_backend": "torch_native"}', 0),
        ('{"tp_size": 8, "cuda_graph_max_bs": 64, "dp_size": 4}', 256),
        ('{"tp_size": 8, "cuda_graph_config": {"decode": {"backend": "full", "bs": [1, 2], "max_bs": 2}}}', 2),
        ('{"tp_size": 8, "cuda_graph_config": {"decode": {"backend": "disabled", "max_bs": 32}}}', 0),
        ('{"tp_size": 8, "device": "cpu", "cuda_graph_max_bs_decode": 16}', 0),
        ('{"tp_size": 8}', None),
    ],
)
def test_the_graph_ceiling_is_what_was_captured(values: str, ceiling: int | None) -> None:
    engine = engines.get("sglang")
    resolved = engine.resolved('{"model_path": "m", ' + values[1:])
    assert resolved is not None
    assert engine.graph_ceiling(resolved) == ceiling


def test_the_cpu_server_of_the_samples_decodes_without_graphs() -> None:
    engine = engines.get("sglang")
    resolved = engine.resolved((SAMPLES / "server_info_cpu_0_5_23.json").read_text())
    assert resolved is not None
    assert engine.graph_ceiling(resolved) == 0
