"""A seeded order over a large index space that is never written out."""

from __future__ import annotations

import hashlib

_ROUNDS = 4


class Permutation:
    """A bijection of 0 … size - 1, a different one for each key: a Feistel network over the next power of four,
    walked along until it lands inside (fewer than four steps on average)."""

    def __init__(self, size: int, key: str) -> None:
        if size < 1:
            raise ValueError(f"a permutation needs at least one element, but got {size}")
        self.size = size
        self._half = max(1, ((size - 1).bit_length() + 1) // 2)
        self._mask = (1 << self._half) - 1
        self._keys = tuple(
            hashlib.blake2b(f"{key}:{turn}".encode(), digest_size=16).digest() for turn in range(_ROUNDS)
        )

    def __getitem__(self, index: int) -> int:
        """Raises IndexError outside 0 … size - 1, so that iteration ends."""
        if not 0 <= index < self.size:
            raise IndexError(index)
        index = self._encrypt(index)
        while index >= self.size:
            index = self._encrypt(index)
        return index

    def _encrypt(self, index: int) -> int:
        left, right = index >> self._half, index & self._mask
        for key in self._keys:
            mixed = hashlib.blake2b(right.to_bytes(8, "little"), digest_size=8, key=key).digest()
            left, right = right, left ^ (int.from_bytes(mixed, "little") & self._mask)
        return (left << self._half) | right
