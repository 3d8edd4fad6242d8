"""Log-probabilities of chosen tokens in fp32, without the logits of a batch ever existing at once.

The vocabulary is walked in chunks with a running log-sum-exp, as flash attention walks keys. When the output
projection is frozen, the same pass also sums p_v W_v over the vocabulary; since d logp_y / d h = W_y - sum_v
p_v W_v, the backward pass is then one multiplication and no logit is computed twice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

VOCAB_CHUNK = 4096
MAX_ROWS = 2048


def token_logprobs(
    hidden: Tensor, weight: Tensor, targets: Tensor, temperature: Tensor, *, chunk: int = VOCAB_CHUNK
) -> tuple[Tensor, Tensor]:
    """log softmax(hidden @ weight.T / temperature)[targets] and the entropy of that distribution, in nats.

    hidden [M, H], weight [V, H], targets [M] int64, temperature [M]. Returns two fp32 tensors [M]; only the
    first carries gradient, to hidden and, where it is asked for, to weight.
    """
    # torch gives `apply` no types.
    both: tuple[Tensor, Tensor] = _TokenLogprobs.apply(  # type: ignore[no-untyped-call]
        hidden, weight, targets, temperature, chunk
    )
    return both


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, temperature: Tensor, chunk: int
    ) -> tuple[Tensor, Tensor]:
        rows, temperature = hidden.float(), temperature.float().unsqueeze(-1)
        picked = weight.index_select(0, targets).float()
        target_logit = (rows * picked).sum(-1) / temperature.squeeze(-1)
        rest, others = _reduce(rows, weight, targets, temperature, chunk)
        # Against all other tokens together, so that near p = 1 neither log p nor the small 1 - p is rounded
        # away.
        logp = -F.softplus(rest - target_logit)
        missing = torch.sigmoid(rest - target_logit)  # 1 - p
        lse = torch.logaddexp(rest, target_logit)
        others.mul_(missing.unsqueeze(-1))
        entropy = lse - (rows * others).sum(-1) / temperature.squeeze(-1) - (1.0 - missing) * target_logit
        gradient = missing.unsqueeze(-1) * picked - others
        ctx.save_for_backward(gradient, rows, weight, targets, temperature, lse)
        ctx.chunk, ctx.dtype = chunk, hidden.dtype
        ctx.mark_non_differentiable(entropy)
        return logp, entropy

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        gradient, rows, weight, targets, temperature, lse = ctx.saved_tensors
        to_hidden = to_weight = None
        if ctx.needs_input_grad[0]:
            to_hidden = (gradient * (grad.unsqueeze(-1) / temperature)).to(ctx.dtype)
        if ctx.needs_input_grad[1]:
            to_weight = _weight_gradient(rows, weight, targets, temperature, lse, grad, ctx.chunk)
        return to_hidden, to_weight, None, None, None


def _reduce(hidden: Tensor, weight: Tensor, targets: Tensor, temperature: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    """Over all tokens but the target: log-sum-exp of the logits [M] and the mean row of W under them [M, H]."""
    parts = [
        _reduce_rows(hidden[rows], weight, targets[rows], temperature[rows], chunk)
        for rows in (slice(i, i + MAX_ROWS) for i in range(0, max(1, len(hidden)), MAX_ROWS))
    ]
    return torch.cat([rest for rest, _ in parts]), torch.cat([others for _, others in parts])


def _reduce_rows(
    hidden: Tensor, weight: Tensor, targets: Tensor, temperature: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    rows = len(hidden)
    high = hidden.new_full((rows, 1), -torch.inf)
    total = hidden.new_zeros(rows, 1)
    others = torch.zeros_like(hidden)
    # One buffer for all chunks: fresh pages cost as much as the product itself.
    buffer = hidden.new_empty(rows * min(chunk, len(weight)))
    for start in range(0, len(weight), chunk):
        block = weight[start : start + chunk].float()
        logits = buffer[: rows * len(block)].view(rows, len(block))
        torch.mm(hidden, block.t(), out=logits)
        logits.div_(temperature)
        _hide_targets(logits, targets, start)
        higher = torch.maximum(high, logits.amax(-1, keepdim=True))
        shrink = (high - higher).exp_()
        p = logits.sub_(higher).exp_()
        total.mul_(shrink).add_(p.sum(-1, keepdim=True))
        others.mul_(shrink).addmm_(p, block)
        high = higher
    return (high + total.log()).squeeze(-1), others.div_(total)


def _hide_targets(logits: Tensor, targets: Tensor, start: int) -> None:
    here = (targets >= start) & (targets < start + logits.shape[1])
    rows = here.nonzero().squeeze(-1)
    logits[rows, targets[rows] - start] = -torch.inf


def _weight_gradient(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    temperature: Tensor,
    lse: Tensor,
    grad: Tensor,
    chunk: int,
) -> Tensor:
    """sum_m grad_m / temperature_m (onehot_m - p_m) (x) hidden_m, [V, H] in fp32."""
    out = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
    scaled = hidden * (grad.unsqueeze(-1) / temperature)
    for start in range(0, len(weight), chunk):
        block = weight[start : start + chunk].float()
        p = (hidden @ block.t()).div_(temperature).sub_(lse.unsqueeze(-1)).exp_().neg_()
        torch.mm(p.t(), scaled, out=out[start : start + chunk])
    return out.index_add_(0, targets, scaled)
