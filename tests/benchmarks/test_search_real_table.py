"""The models of the search on what real GPUs showed."""

import json

import pytest

from autotune import spacefile
from autotune.domain.study import StudySpec
from autotune.recording import decode_trial
from autotune.study import Validity
from autotune.study.ledger import Ledger
from autotune.study.model.improvement import TRUSTED_ABOVE, GreyBoxProposer
from autotune.study.sampler import Sampler
from benchmarks.search import tables

ANYTHING = Validity(problems=lambda _configuration: (), canonical=lambda configuration: configuration)


def recorded(name: str, data: str = "") -> tuple[StudySpec, Ledger]:
    spec = spacefile.load(tables.FOLDER.parents[1] / "search_spaces" / f"{name}.yaml")
    lines = (tables.DATA / f"{data or name}.jsonl").read_text(encoding="utf-8").splitlines()
    return spec, Ledger(spec.space, ANYTHING, [decode_trial(json.loads(line)) for line in lines])


def trusts(name: str) -> list[float]:
    """Of the model that knows what throughput is made of, and of the one that does not."""
    spec, ledger = recorded(name)
    proposer = GreyBoxProposer(spec, ledger, Sampler(ledger, seed=0))
    observed = [observation for observation, _score in proposer._observed()]
    judges = proposer._judges(observed)
    found = []
    for model in proposer._models:
        model.fit(observed)
        found.append(proposer._trust(model, observed, judges))
    return found


def test_accept_length_over_cycle_time_is_not_believed_for_the_spread_that_its_own_division_makes() -> None:
    """The cycle time, whose spread division by the accept length widens, it would foretell to 0.8."""
    knowing, plain = trusts("h200_target_deep")
    assert TRUSTED_ABOVE < knowing < plain < 0.6


def test_after_one_setting_at_a_time_the_model_joins_what_did_no_harm_and_leaves_what_cost_a_fifth() -> None:
    """Seven settings of NCCL, each launched once: left out, none can be foretold, which is no reason to guess on."""
    spec, ledger = recorded("h200x2_nccl", "h200x2_nccl_settings")
    proposed = GreyBoxProposer(spec, ledger, Sampler(ledger, seed=0)).propose()
    assert proposed is not None
    slow = {"NCCL_PROTO": ("Simple", "LL128"), "NCCL_ALGO": ("allreduce:tree",), "NCCL_P2P_DISABLE": (1,)}
    assert all(proposed[name] not in words for name, words in slow.items())
    assert proposed["speculative_algorithm"] == "EAGLE3" or proposed["disable_custom_all_reduce"] is False


@pytest.mark.parametrize(
    ("name", "data"), [("h200_target_deep", ""), ("h200x2_nccl", ""), ("h200x2_nccl", "h200x2_nccl_settings")]
)
def test_a_real_study_is_gone_on_with_and_is_not_called_settled(name: str, data: str) -> None:
    spec, ledger = recorded(name, data)
    proposer = GreyBoxProposer(spec, ledger, Sampler(ledger, seed=0))
    proposed = proposer.propose()
    assert proposed is not None
    assert ledger.is_open(proposed)
    assert proposer.outlook is None or not proposer.outlook.settled
