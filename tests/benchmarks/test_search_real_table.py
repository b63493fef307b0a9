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


def recorded(name: str) -> tuple[StudySpec, Ledger]:
    spec = spacefile.load(tables.FOLDER.parents[1] / "search_spaces" / f"{name}.yaml")
    lines = (tables.DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return spec, Ledger(spec.space, ANYTHING, [decode_trial(json.loads(line)) for line in lines])


def trusts(name: str) -> list[float]:
    """Of the model that knows what throughput is made of, and of the one that does not."""
    spec, ledger = recorded(name)
    proposer = GreyBoxProposer(spec, ledger, Sampler(ledger, seed=0))
    observed = [observation for observation, _score in proposer._observed()]
    found = []
    for model in proposer._models:
        model.fit(observed)
        found.append(proposer._trust(model, observed))
    return found


def test_where_accept_length_over_cycle_time_foretells_nothing_that_model_is_not_believed() -> None:
    """Division by the accept length widens the spread of the cycle time, whose prediction then looks good."""
    knowing, plain = trusts("h200_target_deep")
    assert knowing < TRUSTED_ABOVE
    assert plain > knowing + 0.5


@pytest.mark.parametrize("name", ["h200_target_deep", "h200x2_nccl"])
def test_a_real_study_is_gone_on_with_and_is_not_called_settled(name: str) -> None:
    spec, ledger = recorded(name)
    proposer = GreyBoxProposer(spec, ledger, Sampler(ledger, seed=0))
    proposed = proposer.propose()
    assert proposed is not None
    assert ledger.is_open(proposed)
    assert proposer.outlook is None or not proposer.outlook.settled
