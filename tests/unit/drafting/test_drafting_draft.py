import pytest

from autotune.domain.expression import parse
from autotune.domain.study import StudySpec
from autotune.drafting import Request, make, parse_hardware, read
from autotune.drafting.dimensions import DIMENSIONS, HINTS, UNFIT
from autotune.drafting.facts import NAMES, release_number
from autotune.errors import InputError
from autotune.spacefile import load_text

SERVE = "/opt/x/bin/python3 -m sglang.launch_server --model-path /models/My-Model"
SEED = (
    f"{SERVE} --tp 8 --trust-remote-code --cuda-graph-max-bs 128 --disable-custom-all-reduce "
    "--attention-backend flashinfer --enable-flashinfer-allreduce-fusion"
)
EAGLE = (
    f"NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS SGLANG_ENABLE_SPEC_V2=True {SEED} --speculative-algorithm EAGLE3 "
    "--speculative-draft-model-path /models/draft --speculative-num-steps 2 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 3 --max-running-requests 48"
)


def drafted(command: str, version: str | None = "0.5.9", gpu: str | None = "sm120:8:pcie") -> tuple[StudySpec, str]:
    hardware = None if gpu is None else parse_hardware(gpu)
    draft = make(Request(read(command, "the command"), version, "--engine-version", hardware))
    return load_text(draft.text, "draft"), draft.text + "\n".join(draft.notes)


def names(spec: StudySpec) -> set[str]:
    return {parameter.name for parameter in spec.space.parameters}


def choices(spec: StudySpec, name: str) -> list[object]:
    parameter = spec.space.parameter(name)
    assert parameter is not None, name
    return list(parameter.domain.grid())


def test_the_seeds_baseline_becomes_the_baseline() -> None:
    spec, text = drafted(SEED)
    assert spec.engine.model == "/models/My-Model"
    assert spec.engine.python == "/opt/x/bin/python3"
    assert spec.name == "my-model"
    assert spec.engine.args["tp-size"] == 8
    assert spec.engine.args["disable-custom-all-reduce"] is True
    assert spec.engine.args["max-running-requests"] == 256, "not in the command, so it is set explicitly"
    assert "48 under speculation" in text
    assert spec.baseline["attention_backend"] == "flashinfer"
    assert spec.baseline["cuda_graph_max_bs"] == 128
    assert spec.baseline["NCCL_PROTO"] is None
    assert choices(spec, "attention_backend") == ["flashinfer", "triton"]


def test_the_seeds_speculative_command_keeps_what_its_owner_runs_and_searches_the_safe_spelling() -> None:
    spec, _text = drafted(EAGLE)
    assert spec.baseline["NCCL_ALGO"] == "Ring"
    assert choices(spec, "NCCL_ALGO") == [None, "allreduce:ring", "allreduce:tree"]
    assert spec.baseline["NCCL_PROTO"] == "LL"
    assert spec.baseline["spec_v2"] is True
    assert spec.baseline["speculative_algorithm"] == "EAGLE3"
    assert "speculative_num_draft_tokens" not in spec.baseline, "a chain of 2 steps has 3 whatever is asked"
    assert choices(spec, "speculative_algorithm") == [None, "EAGLE3"]
    assert choices(spec, "speculative_num_steps") == [1, 2, 3, 5]
    assert spec.engine.env == {}
    assert spec.workload.levels == (1, 4, 16, 48), "never above the command's max-running-requests"


@pytest.mark.parametrize(
    ("word", "version", "overlapped"),
    [("True", "0.5.12", True), ("0", "0.5.12", False), ("True", "0.5.13", True), ("0", "0.5.13", False)],
)
def test_the_overlap_variable_becomes_the_knob_and_does_not_stay_fixed(
    word: str, version: str, overlapped: bool
) -> None:
    spec, _text = drafted(EAGLE.replace("SPEC_V2=True", f"SPEC_V2={word}"), version)
    assert spec.baseline["spec_v2"] is overlapped
    assert spec.engine.env == {}


def test_overlap_of_trees_is_forbidden_only_where_the_version_forbids_it() -> None:
    rule = "not (spec_v2 == true and speculative_eagle_topk > 1)"
    assert rule in [str(c) for c in drafted(EAGLE, "0.5.12")[0].space.constraints]
    assert rule not in [str(c) for c in drafted(EAGLE, "0.5.13")[0].space.constraints]


@pytest.mark.parametrize(
    ("command", "version", "gpu", "there"),
    [
        (EAGLE, "0.5.9", "sm120:8:pcie", {"spec_v2", "NCCL_PROTO", "NCCL_P2P_LEVEL"}),
        (EAGLE, "0.5.11", "sm120:8:pcie", {"speculative_adaptive"}),
        (EAGLE, "0.5.9", None, {"NCCL_PROTO"}),
        (f"{SERVE} --tp-size 8", "0.5.23", "sm120:8:pcie", {"pcie_ipc_allreduce", "NCCL_ALGO"}),
        (f"{SERVE} --tp-size 8", "0.5.23", "sm100:8:nvswitch", {"custom_all_reduce", "allreduce_fusion", "symm_mem"}),
        (f"{SERVE} --tp-size 8 --moe-runner-backend triton", "0.5.23", "sm90:8:nvlink", {"ep_size"}),
        (f"{SERVE} --quantization fp8", "0.5.23", "sm120", {"fp8_gemm_backend"}),
    ],
)
def test_dimensions_stand_where_they_can_matter(command: str, version: str, gpu: str | None, there: set[str]) -> None:
    assert there <= names(drafted(command, version, gpu)[0])


@pytest.mark.parametrize(
    ("command", "version", "gpu", "absent"),
    [
        (EAGLE, "0.5.9", "sm120:8:pcie", {"speculative_adaptive", "pcie_ipc_allreduce"}),
        (SERVE, "0.5.23", "sm90", {"NCCL_PROTO", "NCCL_ALGO", "custom_all_reduce", "symm_mem", "ep_size"}),
        (f"{SERVE} --tp-size 8", "0.5.23", "sm90:8:nvswitch", {"NCCL_P2P_LEVEL", "pcie_ipc_allreduce"}),
        (f"{SERVE} --disable-cuda-graph", "0.5.23", "sm90", {"cuda_graph_max_bs"}),
        (f"{SERVE} --prefill-attention-backend fa3", "0.5.23", "sm90", {"attention_backend"}),
    ],
)
def test_dimensions_that_are_dead_are_not_searched(command: str, version: str, gpu: str, absent: set[str]) -> None:
    assert not absent & names(drafted(command, version, gpu)[0])


def test_a_graph_ceiling_below_the_largest_level_stays_in_the_baseline_and_out_of_the_search() -> None:
    spec, text = drafted(f"{SERVE} --cuda-graph-max-bs-decode 32", "0.5.23", "sm90")
    assert spec.baseline["cuda_graph_max_bs"] == 32
    assert min(choices(spec, "cuda_graph_max_bs")) >= max(spec.workload.levels)  # type: ignore[type-var]
    assert "levels above 32 run without a graph" in text


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        ("--disable-custom-all-reduce", "custom_all_reduce", False),
        ("", "custom_all_reduce", True),
        ("--enable-symm-mem", "symm_mem", True),
        ("--enable-flashinfer-allreduce-fusion", "allreduce_fusion", True),
        ("--flashinfer-allreduce-fusion-backend auto", "allreduce_fusion", True),
        ("--flashinfer-allreduce-fusion-backend mnnvl", "allreduce_fusion", "mnnvl"),
    ],
)
def test_flags_become_the_knobs_that_are_searched(flags: str, name: str, value: object) -> None:
    spec, _text = drafted(f"{SERVE} --tp-size 8 {flags}", "0.5.23", "sm100:8:nvswitch")
    assert spec.baseline[name] == value
    assert not any("all-reduce" in arg or "allreduce" in arg or "symm" in arg for arg in spec.engine.args)


@pytest.mark.parametrize(
    ("command", "secret"),
    [
        (f"HF_TOKEN=hf_Secret {SERVE}", "hf_Secret"),
        (f"{SERVE} --api-key sk-Secret", "sk-Secret"),
        (f"{SERVE} --admin-api-key=sk-Secret", "sk-Secret"),
        (f"https_proxy=http://me:Secret1@proxy {SERVE}", "Secret1"),
        (f'{SERVE} --model-loader-extra-config \'{{"token": "Secret2"}}\'', "Secret2"),
        (f"docker run -e WANDB_API_KEY=Secret3 img {SERVE}", "Secret3"),
        (f"{SERVE} --api-key Secret4 --api-key Secret5", "Secret"),
    ],
)
def test_a_secret_never_gets_into_the_file_or_the_notes(command: str, secret: str) -> None:
    _spec, told = drafted(command, "0.5.23")
    assert secret not in told
    assert "left out" in told


@pytest.mark.parametrize(
    ("command", "version", "what"),
    [
        (f"{SERVE} --host 0.0.0.0 --port 30000", "0.5.23", "--host 0.0.0.0"),
        (f"{SERVE} --num-continuous-decode-steps 4", "0.5.23", "--num-continuous-decode-steps 4"),
        (f"SGLANG_ENABLE_SPEC_V2=1 {SERVE}", "0.5.23", "SGLANG_ENABLE_SPEC_V2=1"),
        (f"CUDA_DEVICE_MAX_CONNECTIONS=1 {SERVE}", "0.5.9", "CUDA_DEVICE_MAX_CONNECTIONS=1"),
        (f"SGLANG_SIMULATE_ACC_LEN=3 {SERVE}", "0.5.23", "SGLANG_SIMULATE_ACC_LEN=3"),
        (SEED, "0.5.9", "--enable-flashinfer-allreduce-fusion"),
        (f"{SERVE} --random-seed $RANDOM", "0.5.23", "--random-seed $RANDOM"),
        (f"{SERVE} stray", "0.5.23", "stray"),
    ],
)
def test_what_has_no_place_is_kept_as_a_comment_and_told(command: str, version: str, what: str) -> None:
    _spec, told = drafted(command, version)
    assert f"#   - {what}: " in told
    assert f"left out: {what}: " in told


def test_without_a_version_the_newest_that_takes_the_flags_is_assumed_and_told() -> None:
    _spec, text = drafted(SEED, None)
    assert "SGLang 0.5.19 was assumed: the newest that takes these flags" in text
    _spec, text = drafted(SERVE, None)
    assert "was assumed: the newest that is known" in text


@pytest.mark.parametrize(
    ("command", "version", "why"),
    [
        (SEED, "0.5.23", "--cuda-graph-max-bs-decode or --cuda-graph-max-bs-prefill"),
        (f"{SERVE} --nosuch 1", None, "--nosuch is no flag"),
        (SERVE, "0.5.1", "must be 0.5.9 or newer"),
        ("sglang serve --tp-size 8", "0.5.23", "must name its model"),
        ("sglang serve --model-path $M", "0.5.23", r"must name its model.*\$M"),
        (f"{SERVE} --nnodes 2", "0.5.23", "one node is tuned at a time"),
    ],
)
def test_a_command_that_cannot_be_a_baseline_is_refused(command: str, version: str | None, why: str) -> None:
    with pytest.raises(InputError, match=why):
        drafted(command, version)


def test_more_ranks_than_gpus_are_told() -> None:
    assert "wants 8 GPUs" in drafted(f"{SERVE} --tp-size 8", "0.5.23", "sm90:4:nvlink")[1]


@pytest.mark.parametrize("text", ["120:8", "sm120:x", "sm120:0", "sm120:8:usb", "sm120:8:pcie:1", ""])
def test_a_node_in_another_form_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--gpu must be"):
        parse_hardware(text)


def test_a_node_is_read() -> None:
    hardware = parse_hardware("sm100:8:nvswitch")
    assert (hardware.architecture, hardware.gpu_count, hardware.link) == ("sm100", 8, "nvswitch")
    assert parse_hardware("sm90").gpu_count == 1
    assert parse_hardware("sm90:1:pcie").link is None, "one GPU has nothing to be linked to"


@pytest.mark.parametrize("row", [*DIMENSIONS, *UNFIT, *HINTS], ids=lambda row: row.name)
def test_every_row_of_the_tables_speaks_of_known_facts_and_has_a_reason_and_a_source(row: object) -> None:
    condition = parse(row.condition)  # type: ignore[attr-defined]
    texts = {
        "pcie",
        "nvlink",
        "nvswitch",
        "EAGLE",
        "EAGLE3",
        "NEXTN",
        "STANDALONE",
        "NGRAM",
        "flashinfer",
        "fa3",
        "fp8",
    }
    assert condition.words <= NAMES | texts
    assert row.why  # type: ignore[attr-defined]
    assert row.source  # type: ignore[attr-defined]


def test_releases_compare_as_numbers() -> None:
    assert release_number((0, 5, 9)) == 509 < release_number((0, 5, 23)) == 523 < release_number((0, 6)) == 600
