"""The command line: SGLang 0.5.9's own flags, read from a table, parsed by argparse as SGLang does."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VERSION = "0.5.9"
FLAG_TABLE = Path(__file__).with_name("flags_0_5_9.json")

FIELD_NAMES = {
    "tensor_parallel_size": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "data_parallel_size": "dp_size",
    "expert_parallel_size": "ep_size",
    "attention_context_parallel_size": "attn_cp_size",
    "moe_data_parallel_size": "moe_dp_size",
    "fp8_gemm_backend": "fp8_gemm_runner_backend",
    "fp4_gemm_backend": "fp4_gemm_runner_backend",
}
"""Where a flag's name and the name under which the server reports it differ."""

_TYPES: dict[str, Any] = {"str": str, "int": int, "float": float, "json": json.loads}


@functools.cache
def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="launch_server.py", description="A simulated node that takes the flags of an SGLang 0.5.9 server."
    )
    for row in json.loads(FLAG_TABLE.read_text(encoding="utf-8")):
        options: dict[str, Any] = {"default": row.get("default")}
        if "type" in row:
            options["type"] = _TYPES[row["type"]]
            if "nargs" in row:
                options["nargs"] = row["nargs"]
            if "choices" in row:
                options["choices"] = row["choices"]
        else:
            options["action"] = "store_true"
            options["default"] = row.get("default", False)
        parser.add_argument(row["flag"], *row.get("aliases", ()), required=row.get("required", False), **options)
    return parser


def parse(argv: Sequence[str]) -> dict[str, Any]:
    """Values by the server's own field names, nothing resolved yet. Exits with status 2 as argparse does."""
    parsed = vars(build_parser().parse_args(list(argv)))
    return {FIELD_NAMES.get(name, name): value for name, value in parsed.items()}
