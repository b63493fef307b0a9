"""A draft model beside its target: what their config files, tensors and vocabularies say against the pair.

Read from SGLang 0.5.23 (models/llama_eagle3.py, models/llama_eagle.py, speculative/eagle_worker_v2.py,
speculative/standalone_worker_v2.py, arg_groups/serving_hook.py). What a config does not say is held against nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from autotune.domain.models import Misfit, ModelFiles, Speculation
from autotune.domain.trial import ResolvedArguments
from autotune.engines.dialect import speculation as rules

DRAFT_PATH = "speculative_draft_model_path"
DRAFT_QUANTIZATION = "speculative_draft_model_quantization"
TOKEN_MAP = "speculative_token_map"

_EAGLE_ALGORITHMS = ("EAGLE", "NEXTN", "EAGLE3")
_WITHOUT_DRAFT = ("NGRAM", "UNO")
"""Algorithms that load no draft model, so that a low accept length accuses none."""

_TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal models keep the language model's own figures; the thinker has a text_config inside."""

_DEFAULT_AUX = 3
"""So many layers of the target feed an EAGLE-3 head that does not say: 2, n // 2 and n - 3."""


def draft_path(asked: Mapping[str, object]) -> str | None:
    """`asked`: fixed and chosen arguments by the names of the space file."""
    chosen, path = rules.algorithm(asked), asked.get(DRAFT_PATH)
    return path if chosen is not None and chosen not in _WITHOUT_DRAFT and isinstance(path, str) else None


def speculation(answer: ResolvedArguments) -> Speculation | None:
    chosen = rules.algorithm(answer.values)
    if chosen is None or chosen == "NONE":
        return None
    # An adaptive server moves between candidates: the largest is the bound.
    told = (answer.values.get(name) for name in (rules.DRAFT_TOKENS, "internal.max_speculative_num_draft_tokens"))
    known = [tokens for tokens in map(_whole, told) if tokens is not None]
    return Speculation(chosen, chosen not in _WITHOUT_DRAFT, max(known, default=None))


def misfits(asked: Mapping[str, object], target: ModelFiles, draft: ModelFiles) -> tuple[Misfit, ...]:
    """Each with the values of both files. A model that drafts for itself (its own MTP layers) is not judged."""
    chosen = rules.algorithm(asked)
    if chosen is None or target.path == draft.path:
        return ()
    pair = _Pair(chosen, asked, target, draft)
    return (*pair.head(), *pair.widths(), *pair.vocabularies(), *pair.layers(), *pair.quantization())


class _Pair:
    """`kind` of the draft: eagle3, eagle, block (DFLASH and its like), mtp, full, or empty where it is not known."""

    def __init__(self, algorithm: str, asked: Mapping[str, object], target: ModelFiles, draft: ModelFiles) -> None:
        self.algorithm, self.asked = algorithm, asked
        self.draft, self.target = draft, target
        self.theirs, self.ours = _language(target.config), draft.config
        self.architecture = _architecture(draft.config)
        self.kind = _kind(self.architecture)
        self.files = f"draft {draft.path}/config.json, target {target.path}/config.json"
        eagle = draft.config.get("eagle_config")
        self.eagle: Mapping[str, Any] = eagle if isinstance(eagle, Mapping) else {}

    def head(self) -> Iterator[Misfit]:
        """EAGLE with an EAGLE-3 head starts, and accepts nothing: sglang issue 21272 shows accept length 1.00."""
        where = f"({self.draft.path}/config.json says architectures: {self.architecture})"
        wanted = {"EAGLE3": "an EAGLE-3 head (such as LlamaForCausalLMEagle3)", "STANDALONE": "a whole model"}
        takes = wanted.get(self.algorithm, "an EAGLE head (such as LlamaForCausalLMEagle) or a model's own MTP layers")
        said = f"speculative_algorithm {self.algorithm} takes {takes} as its draft, but this one is"
        if self.algorithm == "EAGLE3" and self.kind not in ("", "eagle3"):
            yield Misfit(f"{said} {_KINDS[self.kind]} {where}", certain=True)
        elif self.algorithm in ("EAGLE", "NEXTN") and self.kind in ("eagle3", "block"):
            yield Misfit(f"{said} {_KINDS[self.kind]} {where}{_instead(self.kind)}", certain=True)
        elif self.algorithm in ("EAGLE", "NEXTN") and self.kind == "full" and not _has_mtp(self.ours):
            yield Misfit(f"{said} {_KINDS['full']} {where}: an accept length of 1.00 is likely", certain=False)
        elif self.algorithm == "STANDALONE" and self.kind in ("eagle3", "eagle", "block"):
            yield Misfit(f"{said} {_KINDS[self.kind]} {where}{_instead(self.kind)}", certain=True)
        elif self.algorithm == "DFLASH" and self.kind in ("eagle3", "eagle"):
            yield Misfit(f"{said.replace(takes, 'a DFLASH draft')} {_KINDS[self.kind]} {where}", certain=True)

    def widths(self) -> Iterator[Misfit]:
        """An EAGLE head reads the target's hidden states, and shares its embedding unless it says another width."""
        if not self._is_eagle_head:
            return
        key = "target_hidden_size" if _whole(self.ours.get("target_hidden_size")) is not None else "hidden_size"
        has, needs = _whole(self.ours.get(key)), _whole(self.theirs.get("hidden_size"))
        if has is not None and needs is not None and has != needs:
            text = f"the draft's {key} must be the target's hidden_size, but {has} != {needs}"
            yield Misfit(f"{text} ({self.files})", certain=True)
        fc = _shape(self.draft.tensors, "fc.weight")
        if self.kind == "eagle3" and fc is not None and len(fc) == 2 and has is not None:
            expected = has * self.aux_count
            if fc[1] != expected:
                yield Misfit(
                    f"the draft's fc.weight must take {self.aux_count} layers of {has}, which is {expected} wide, but "
                    f"its weights in {self.draft.path} are {fc[1]} wide",
                    certain=True,
                )

    def vocabularies(self) -> Iterator[Misfit]:
        theirs, ours = _whole(self.theirs.get("vocab_size")), _whole(_language(self.ours).get("vocab_size"))
        standalone = self.algorithm == "STANDALONE"
        if theirs is not None and ours is not None and theirs != ours and (standalone or self._is_eagle_head):
            text = f"the draft's vocab_size must be the target's, but {ours} != {theirs} ({self.files})"
            yield Misfit(text if standalone else f"{text}: padding, or another tokenizer", certain=standalone)
        one, other = self.draft.vocabulary, self.target.vocabulary
        if one is not None and other is not None and one != other:
            yield Misfit(
                "draft and target must have one tokenizer, but the tokens and ids of "
                f"{self.draft.path}/tokenizer.json and {self.target.path}/tokenizer.json differ",
                certain=standalone and theirs == ours,
            )
        reduced = _whole(self.ours.get("draft_vocab_size"))
        if self.kind == "eagle3" and reduced is not None and theirs is not None:
            yield from self._reduced(reduced, theirs)

    def _reduced(self, reduced: int, theirs: int) -> Iterator[Misfit]:
        if reduced > theirs:
            text = f"the draft's draft_vocab_size must not be above the target's vocab_size, but {reduced} > {theirs}"
            yield Misfit(f"{text} ({self.files})", certain=True)
        elif reduced < theirs and self.draft.tensors is not None and _shape(self.draft.tensors, "d2t") is None:
            yield Misfit(
                f"a draft of {reduced} of the target's {theirs} tokens must bring the map d2t, but the weights in "
                f"{self.draft.path} have none: its token ids would be taken for the target's",
                certain=True,
            )

    def layers(self) -> Iterator[Misfit]:
        """The server takes layer i's output as what enters layer i + 1; many models have nothing after the last."""
        count = _whole(self.theirs.get("num_hidden_layers"))
        if self.algorithm != "EAGLE3" or self.kind != "eagle3" or self.eagle.get("use_aux_hidden_state") is False:
            return
        stated = _whole(self.ours.get("num_aux_hidden_states"))
        if self.aux_ids and stated is not None and stated != len(self.aux_ids):
            yield Misfit(
                f"num_aux_hidden_states must count eagle_aux_hidden_state_layer_ids, but {stated} != "
                f"{len(self.aux_ids)} ({self.draft.path}/config.json)",
                certain=True,
            )
        if count is None:
            return
        if not self.aux_ids:
            if len({2, count // 2, count - 3} & set(range(count))) < _DEFAULT_AUX:
                text = f"the draft names no aux layers, and the target's {count} are too few for 2, n // 2 and n - 3"
                yield Misfit(f"{text} ({self.files})", certain=False)
            return
        if outside := [index for index in self.aux_ids if not 0 <= index < count]:
            yield Misfit(
                f"eagle_aux_hidden_state_layer_ids must be layers of the target, 0 to {count - 1}, but "
                f"{', '.join(map(str, outside))} is not ({self.files})",
                certain=True,
            )
        elif count - 1 in self.aux_ids:
            text = f"the draft reads the output of the target's last layer, {count - 1}, which not every model captures"
            yield Misfit(f"{text} ({self.files})", certain=False)

    def quantization(self) -> Iterator[Misfit]:
        """What a checkpoint's own quantization_config says is not passed on to the draft; --quantization is."""
        asked = self.asked.get("quantization")
        if not isinstance(asked, str) or asked in ("", "unquant") or self.asked.get(DRAFT_QUANTIZATION) is not None:
            return
        if not isinstance(self.ours.get("quantization_config"), Mapping):
            yield Misfit(
                f"the draft has no quantization_config ({self.draft.path}/config.json) and will be loaded with the "
                f"target's quantization {asked}: {DRAFT_QUANTIZATION.replace('_', '-')}: unquant keeps it as it is",
                certain=False,
            )

    @property
    def _is_eagle_head(self) -> bool:
        return self.algorithm in _EAGLE_ALGORITHMS and self.kind in ("eagle", "eagle3")

    @property
    def aux_ids(self) -> tuple[int, ...]:
        key = "eagle_aux_hidden_state_layer_ids"
        listed = self.eagle.get(key, self.ours.get(key))
        read = [_whole(item) for item in listed] if isinstance(listed, list) else []
        return tuple(index for index in read if index is not None)

    @property
    def aux_count(self) -> int:
        stated = _whole(self.ours.get("num_aux_hidden_states"))
        return stated if stated is not None else len(self.aux_ids) or _DEFAULT_AUX


_KINDS = {
    "eagle3": "an EAGLE-3 head",
    "eagle": "an EAGLE head of the first kind",
    "block": "a block draft (DFLASH, DSPARK)",
    "mtp": "a model's own MTP layers",
    "full": "a whole model",
}
_INSTEAD = {"eagle3": "EAGLE3", "eagle": "EAGLE", "block": "DFLASH or DSPARK"}


def _instead(kind: str) -> str:
    return f": use speculative_algorithm {_INSTEAD[kind]}" if kind in _INSTEAD else ""


def _kind(architecture: str) -> str:
    name = architecture.lower()
    if "eagle" in name:
        return "eagle3" if "eagle3" in name else "eagle"
    if "dflash" in name or "dspark" in name:
        return "block"
    if name.endswith(("mtp", "nextn")):
        return "mtp"
    return "full" if name.endswith(("forcausallm", "forconditionalgeneration", "lmheadmodel")) else ""


def _architecture(config: Mapping[str, Any]) -> str:
    listed = config.get("architectures")
    return str(listed[0]) if isinstance(listed, list) and listed else ""


def _has_mtp(config: Mapping[str, Any]) -> bool:
    return any("nextn" in key or "mtp" in key for key in (*config, *_language(config)))


def _language(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's own part of a config; the config itself where there is no such part."""
    for key in _TEXT_CONFIGS:
        part = config.get(key)
        if isinstance(part, Mapping) and part:
            return _language(part)
    return config


def _shape(tensors: Mapping[str, tuple[int, ...]] | None, name: str) -> tuple[int, ...] | None:
    """Of the tensor of this name, at any depth (`model.fc.weight`)."""
    return next((s for full, s in (tensors or {}).items() if full == name or full.endswith("." + name)), None)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
