"""Texts as numbers without a vocabulary: every word and every mark has the bucket that its hash says."""

import re
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from shiftbench.errors import ShiftBenchError

BUCKETS = 1 << 15
"""Tokens run from 1 to BUCKETS - 1. 0 is padding."""

WORD = re.compile(r"\w+(?:'\w+)*|[^\w\s]")
"""A run of letters and digits, apostrophes inside it included (don't), or a single mark."""


class _Buckets(dict[str, int]):
    """Bucket of a word: computed when first met, looked up from then on. Texts repeat their words."""

    def __missing__(self, word: str) -> int:
        # Half of a surrogate pair is no character, but texts from the wild have them.
        found = self[word] = 1 + zlib.crc32(word.encode("utf-8", "surrogatepass")) % (BUCKETS - 1)
        return found


def hashed_words(texts: Sequence[str], length: int) -> npt.NDArray[np.int32]:
    """The first `length` words and marks of each text, lower-cased, as hashes 1, 2, …; then 0.

        token(w) = 1 + crc32(w) mod (BUCKETS - 1)

    No text decides how another is cut, so training learns nothing from the test's words, and a token means the same in
    every benchmark. Two words may share a bucket: 30,000 different ones use about 19,700 buckets.
    """
    if length < 1:
        raise ShiftBenchError(f"Texts are cut to {length} tokens, but must have room for at least 1. Set size.")
    bucket, find = _Buckets(), WORD.findall
    found = np.zeros((len(texts), length), np.int32)
    for row, text in enumerate(texts):
        words = find(text.lower().replace("\u2019", "'"))[:length]
        found[row, :len(words)] = [bucket[word] for word in words]
    return found
