"""Values of the space file as the numbers and words that rules compare."""

from __future__ import annotations


def whole(value: object) -> int | None:
    """8 from 8 or "8"; None for anything else, yes and no among it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        return int(value)
    return None


def whole_list(value: object) -> tuple[int, ...]:
    """(1, 2, 4) from "1 2 4"; empty if it is no list of whole numbers."""
    words = value.replace(",", " ").split() if isinstance(value, str) else [value]
    numbers = [whole(word) for word in words]
    return tuple(number for number in numbers if number is not None) if None not in numbers else ()


def is_on(value: object) -> bool:
    """As SGLang reads a yes in a flag or a variable."""
    return value is True or (isinstance(value, int | str) and str(value).lower() in ("1", "true", "yes", "y", "on"))
