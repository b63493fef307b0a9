"""The model and its draft: not there, not readable, not made for each other; and arguments that do not fit."""

from __future__ import annotations

from autotune.domain.trial import FailureReason
from autotune.engines.dialect.phases import BEFORE_WEIGHTS, STARTING, Phase
from autotune.engines.dialect.rule import Rule, any_of

_REFUSED = frozenset({"ValueError", "AssertionError", "TypeError", "NotImplementedError"})
_OWN_CODE = any_of(r"[/\\\"]sglang[/\\]")

MODEL_RULES: tuple[Rule, ...] = (
    Rule(
        any_of(
            r"is not a local folder and is not a valid model identifier",
            r"is not a valid model identifier",
            r"Repository Not Found|RepositoryNotFoundError|Repo id must",
            r"HFValidationError",
            r"LocalEntryNotFoundError|cannot find the requested files in the (local|disk) cache",
            r"[Cc]ouldn't connect to .https://huggingface|Cannot reach https://huggingface",
            r"OfflineModeIsEnabled|GatedRepoError",
            r"Client Error.*for url: https?://(huggingface|www\.modelscope)",
        ),
        FailureReason.MODEL_NOT_FOUND,
        "there is no such model folder, and a hub does not have it or cannot be reached",
        "engine.model and speculative-draft-model-path must be folders on this node, spelled as they are there",
    ),
    Rule(
        any_of(
            r"does not appear to have a file named",
            r"Can't load (the configuration|tokenizer|image processor)",
            r"Unrecognized (model|configuration class)",
            r"Couldn't instantiate the backend tokenizer",
            r"Tokenizer class \S+ does not exist",
            r"Cannot find any model weights",
            r"[Nn]o (safetensors|weights?|checkpoint) files? (were )?found",
            r"No such file or directory: '[^']*(config\.json|\.safetensors|tokenizer)",
            r"SafetensorError|MetadataIncompleteBuffer|HeaderTooLarge|InvalidHeader|header too (large|small)",
            r"Model architectures? \[?.*(not supported|are not supported)",
        ),
        FailureReason.MODEL_UNREADABLE,
        "a file of the model or the draft is missing, damaged, or of a kind that this sglang cannot serve",
        "compare the folder with its source: config.json, tokenizer files and every shard have to be there",
    ),
    Rule(
        any_of(
            r"size mismatch",
            r"Expected hidden_size to be",
            r"mat1 and mat2 shapes cannot be multiplied",
            r"vocab(ulary)?( |_)size.*(match|!=|differ)",
            r"Target model's context_length .* greater than",
            r"object has no attribute '(hot_token_id|set_embed\w*|set_eagle3_\w+|get_embed_and_head)'",
        ),
        FailureReason.MODEL_MISMATCH,
        "the draft does not fit the target",
        "use a draft that was trained for this very model",
        phases=STARTING,
    ),
    Rule(
        any_of(r""),
        FailureReason.MODEL_MISMATCH,
        "the weights do not fit the model's class",
        "check that the checkpoint, its quantization and the draft belong together",
        phases=frozenset({Phase.WEIGHTS}),
        kinds=frozenset({"AssertionError", "KeyError", "RuntimeError", "ValueError"}),
        frames=any_of(r"in load_weights", r"in weight_loader", r"weight_utils\.py"),
    ),
)

COMBINATION_RULES: tuple[Rule, ...] = (
    Rule(
        any_of(r""),
        FailureReason.INVALID_COMBINATION,
        "the server refused this combination of arguments",
        "add a constraint to the space file that leaves it out",
        phases=BEFORE_WEIGHTS,
        kinds=_REFUSED,
        frames=_OWN_CODE,
    ),
)
