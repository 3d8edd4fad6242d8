"""The fixed prefixes of the canary: 64 beginnings of ordinary text, in the model's own tokens. Pure.

Four long beginnings with sixteen short ends each. What is long is shared: an engine computes it once a version, takes
it from its cache for the other fifteen, and so a cache that outlived its weights touches every answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLOCKS = 2  # a beginning fills so many of the blocks in which the engine keeps prompts
END = 4
ENDS = 16

PASSAGES = (
    "The harbour was quiet when the first boat came in. Two women stood on the quay and counted the crates as they "
    "were lifted out, herring in some, crab in others, and wrote the numbers into a book with a green cover. By seven "
    "the market had opened, the gulls had found it, and nobody could hear the bell of the church any more. An old man "
    "sold bread from a cart; he knew every name, and asked each of them about the night and the weather further out.",
    "def median(values):\n    ordered = sorted(values)\n    middle = len(ordered) // 2\n    if len(ordered) % 2:\n"
    "        return ordered[middle]\n    return (ordered[middle - 1] + ordered[middle]) / 2\n\n\nclass Counter:\n"
    "    def __init__(self, start=0):\n        self.count = start\n\n    def add(self, step=1):\n"
    "        self.count += step\n        return self.count\n\n\nprint(median([3, 1, 2]), Counter(5).add())\n",
    "Question: A train leaves at 9:40 and needs 2 hours and 35 minutes. When does it arrive?\nAnswer: 9:40 plus two "
    "hours is 11:40, and 35 minutes later it is 12:15.\nQuestion: What is 17 times 24?\nAnswer: 17 times 20 is 340, "
    "17 times 4 is 68, together 408.\nQuestion: A box holds 12 eggs. How many boxes do 150 eggs need?\nAnswer: 150 "
    "divided by 12 is 12.5, so 13 boxes are needed and the last one is half full.\n",
    '{"name": "look_up", "arguments": {"city": "Lisbon", "day": "tomorrow", "units": "metric"}}\nThe forecast says 21 '
    "degrees with light wind from the west. I would take a jacket for the evening.\n\nSteps:\n1. Open the settings "
    "and choose a language.\n2. Enter the address of the server.\n3. Wait until the light turns green; it may take a "
    "minute.\n4. If it stays red, start again from the first step and check the cable.\n",
)


def prefixes(passages: Sequence[Sequence[int]], block: int, max_model_len: int) -> list[NDArray[np.int32]]:
    """64 prefixes from the tokens of PASSAGES; those of one beginning stand next to each other. `block`: tokens.
    ValueError where the context cannot hold one."""
    length = min(BLOCKS * block, max_model_len - END - 2)
    if length < 1 or not all(passages):
        raise ValueError(f"vllm.max_model_len = {max_model_len} is too short for the canary's prefixes")
    found = []
    for i in range(len(passages)):
        *others, last = [np.array(passages[(i + j) % len(passages)], np.int32) for j in range(len(passages))]
        beginning = np.resize(np.concatenate(others), length)
        windows = list(dict.fromkeys(tuple(np.resize(np.roll(last, -j), END)) for j in range(1, len(last) + 1)))
        for k in range(ENDS):
            end = windows[k * len(windows) // ENDS]
            found.append(np.concatenate([beginning, np.array(end, np.int32)]))
    return found
