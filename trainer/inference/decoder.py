"""Batched decoding with continuous admission: every step gives one token to every running sequence."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from trainer.inference.engine import Sampling
from trainer.inference.forward import Forward, Prefill
from trainer.inference.kv_cache import PrefixCache, RowCache
from trainer.inference.sampler import Draw, likeliest, sample, uniform
from trainer.inference.stopping import Decode, StopStrings


class Item(NamedTuple):
    """One sampled token."""

    id: int
    token: int
    logp: float
    finish: str | None
    stop_detail: str | None
    top: dict[int, float] | None = None


@dataclass(slots=True)
class _Sequence:
    id: int
    prompt: list[int]
    sampling: Sampling
    seed: int
    stops: StopStrings
    weights: int = 0  # swaps before its cached prompt was computed
    completion: list[int] = field(default_factory=list)

    @property
    def cached(self) -> int:
        """Tokens in the cache: all but the newest sampled one, which the next step feeds."""
        return len(self.prompt) + max(0, len(self.completion) - 1)

    def draw(self) -> Draw:
        s = self.sampling
        seen = self.prompt + self.completion if s.repetition_penalty != 1 else ()
        return Draw(
            s.temperature,
            uniform(self.seed, len(self.completion)),
            s.top_p,
            s.top_k,
            s.repetition_penalty,
            seen,
        )


class Decoder:
    """Owns the cache and the running sequences; not thread-safe. `deterministic` makes a sequence's numbers
    independent of its company to the last bit: prompts one by one, no shared prefixes, one fixed batch shape."""

    LENGTH_STEP = 32  # attention lengths are rounded up to this
    PREFILL_TOKENS = 4096  # prompt tokens computed in one step, so that running sequences do not wait long
    PREFIX_TOKENS = 16384

    def __init__(
        self,
        forward: Forward,
        *,
        eos_ids: Collection[int],
        max_model_len: int,
        max_num_seqs: int,
        decode_text: Decode,
        deterministic: bool = False,
    ) -> None:
        self._forward, self.version = forward, 0
        self._swaps = 0  # a version may be sent twice, with other weights
        self._eos, self._max_len, self._max_seqs = frozenset(eos_ids), max_model_len, max_num_seqs
        self._decode_text, self._deterministic = decode_text, deterministic
        self._rows = RowCache(forward.layers, max_num_seqs, forward.width, forward.dtype, max_model_len)
        if deterministic:
            self._rows.reserve(max_model_len, 0)
        self._prefixes = PrefixCache(0 if deterministic else self.PREFIX_TOKENS)
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []  # index = cache row

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._running)

    @property
    def forward(self) -> Forward:
        return self._forward

    def submit(self, id: int, prompt_ids: Sequence[int], sampling: Sampling) -> None:
        """Raises ValueError when the prompt leaves no room for a token."""
        if not 0 < len(prompt_ids) < self._max_len:
            raise ValueError(f"the prompt has {len(prompt_ids)} tokens, the context limit is {self._max_len}")
        seed = sampling.seed if sampling.seed is not None else random.getrandbits(63)
        stops = StopStrings(sampling.stop, self._decode_text)
        self._waiting.append(_Sequence(id, list(prompt_ids), sampling, seed, stops))

    def abort(self, id: int) -> None:
        self._waiting = deque(s for s in self._waiting if s.id != id)
        for row, sequence in enumerate(self._running):
            if sequence.id == id:
                self._free([row])
                return

    def swap(self, forward: Forward, version: int) -> None:
        """From the next step on. Running sequences keep the cache that the old weights wrote."""
        self._forward, self.version = forward, version
        self._swaps += 1
        self._prefixes.clear()

    @torch.inference_mode()
    def step(self) -> list[Item]:
        """Admits what fits, then samples one token for every running sequence."""
        old = len(self._running)
        logits = [self._decode(old)] if old else []
        if self._waiting and old < self._max_seqs:
            logits.append(self._admit())
        if not logits:
            return []
        drawn = torch.cat(logits) if len(logits) > 1 else logits[0]
        tops = likeliest(drawn, [s.sampling.top_logprobs for s in self._running])
        tokens, logps = sample(drawn, [s.draw() for s in self._running])
        items, finished = [], []
        for row, sequence in enumerate(self._running):
            sequence.completion.append(tokens[row])
            finish, detail = self._finish(sequence)
            items.append(Item(sequence.id, tokens[row], logps[row], finish, detail, tops.get(row)))
            if finish:
                finished.append(row)
        self._free(finished)
        return items

    def _decode(self, count: int) -> Tensor:
        """Logits of the running sequences [count, V]."""
        running = self._running
        lengths = [s.cached for s in running]
        tokens = [s.completion[-1] for s in running]
        longest = -(-(max(lengths) + 1) // self.LENGTH_STEP) * self.LENGTH_STEP
        self._rows.reserve(min(longest, self._max_len), count)
        longest = min(longest, self._rows.capacity)
        if self._deterministic:
            padding = self._max_seqs - count
            tokens, lengths, longest = tokens + [0] * padding, lengths + [0] * padding, self._rows.capacity
        hidden = self._forward.decode(torch.tensor(tokens), torch.tensor(lengths), longest, self._rows.kv)
        return self._forward.logits(hidden)[:count]

    def _admit(self) -> Tensor:
        """Moves waiting sequences into rows and computes their prompts; logits [admitted, V]."""
        first = len(self._running)
        batch: list[Prefill] = []
        budget = self.PREFILL_TOKENS
        hidden: dict[int, Tensor] = {}  # row -> state of its prompt's last token
        twins: dict[int, int] = {}  # row -> row of the same prompt in this batch
        row_of: dict[tuple[int, ...], int] = {}
        while self._waiting and len(self._running) < self._max_seqs and budget > 0:
            sequence, row = self._waiting.popleft(), len(self._running)
            sequence.weights = self._swaps
            self._running.append(sequence)
            self._rows.reserve(len(sequence.prompt), row + 1)
            twin = None if self._deterministic else row_of.setdefault(tuple(sequence.prompt), row)
            if twin is not None and twin != row:
                twins[row] = twin
                continue
            found = None if self._deterministic else self._prefixes.find(sequence.prompt)
            past = 0
            if found is not None:
                prefix, past = found
                self._rows.copy_in(row, prefix.kv[:, :past])
                if past == len(sequence.prompt):
                    hidden[row] = prefix.hidden
                    continue
            batch.append(Prefill(sequence.prompt[past:], row, past))
            budget -= len(sequence.prompt) - past
        groups = [[p] for p in batch] if self._deterministic else [batch] if batch else []
        for group in groups:
            for p, state in zip(group, self._forward.prefill(group, self._rows.kv), strict=True):
                hidden[p.row] = state
                prompt = self._running[p.row].prompt
                if not self._deterministic:
                    self._prefixes.put(prompt, self._rows.copy_out(p.row, len(prompt)), state.clone())
        for row, twin in twins.items():
            self._rows.move(twin, row, len(self._running[row].prompt))
            hidden[row] = hidden[twin]
        states = [hidden[row] for row in range(first, len(self._running))]
        if self._deterministic:
            return torch.cat([self._forward.logits(state.unsqueeze(0)) for state in states])
        return self._forward.logits(torch.stack(states))

    def _finish(self, sequence: _Sequence) -> tuple[str | None, str | None]:
        """Finish reason and the stop string, if one matched."""
        if sequence.completion[-1] in self._eos:
            return "stop", None
        if (stop := sequence.stops.match(sequence.completion)) is not None:
            return "stop", stop
        full = len(sequence.prompt) + len(sequence.completion) >= self._max_len
        if full or len(sequence.completion) >= sequence.sampling.max_tokens:
            return "length", None
        return None, None

    def _free(self, rows: list[int]) -> None:
        """Takes sequences out; the last rows move into the gaps."""
        for row in sorted(rows, reverse=True):
            sequence = self._running[row]
            if not self._deterministic and sequence.weights == self._swaps:
                ids = (sequence.prompt + sequence.completion)[: sequence.cached]
                self._prefixes.put(ids, self._rows.copy_out(row, len(ids)), None)
            last = self._running.pop()
            if last is not sequence:
                # a finished sequence above this row is gone already, so `last` is one that goes on
                self._rows.move(len(self._running), row, last.cached)
                self._running[row] = last
