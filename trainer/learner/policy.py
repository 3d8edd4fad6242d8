"""The policy: a model whose trainable weights are fp32 and whose forward pass runs in the run's dtype."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
from peft import LoraConfig
from torch import Tensor, nn

from trainer.learner import parallel
from trainer.learner.attention import NAME as TREE_ATTENTION
from trainer.learner.batches import MicroBatch
from trainer.learner.flat import FlatWeights, write_stream
from trainer.learner.logprobs import VOCAB_CHUNK, token_logprobs
from trainer.learner.lora import MergedLora
from trainer.learner.protocol import LearnerSettings
from trainer.learner.start import load_adapter
from trainer.models import load_model

if TYPE_CHECKING:
    from trainer.learner.qlora import FourBitLora

# A logit that passes through one of these is not hidden @ W.T, which is all that logprobs.py computes.
_LOGIT_TRANSFORMS = ("final_logit_softcapping", "logit_scale", "logits_scaling")
CPU = torch.device("cpu")
T = TypeVar("T")


class UnsupportedModel(ValueError):
    """The model cannot be trained here; the text says what about it."""


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Of the M sampled tokens of a micro-batch, in its order."""

    logp: Tensor  # [M] fp32, carries gradient
    entropy: Tensor  # [M] fp32
    hidden: Tensor  # [M, H] what they were computed from


class Policy:
    """`trainable` are the fp32 tensors that the optimizer steps; call `refresh` after it did."""

    def __init__(self, settings: LearnerSettings) -> None:
        self.settings = settings
        self.dtype: torch.dtype = getattr(torch, settings.dtype)
        self.device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else CPU
        sharded = parallel.size() > 1 and settings.trainer_mode != "qlora"  # whose ranks are replicas
        base = self._model = load_start(settings, CPU if sharded else self.device)
        self.config = base.config
        self.generation_config = getattr(base, "generation_config", None)
        if settings.gradient_checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        # Both are read before peft wraps them, so that either mode finds them by the stock names.
        self._body, self._head = base.get_decoder(), base.get_output_embeddings()
        self.lora: MergedLora | FourBitLora | None = None
        self._masters: dict[str, Tensor] = {}
        torch.manual_seed(settings.seed)
        self.served: FlatWeights | None = None  # of one rank: what a sync writes, laid out as its file
        if settings.trainer_mode in ("lora", "qlora"):
            self.lora = adapted(base, settings, keep=not sharded)
            if settings.start_adapter:
                load_adapter(self.lora.model, Path(settings.start_adapter))
                self.lora.merge()
            self.served = self.lora.served
            self.trainable = {n: p for n, p in self.lora.model.named_parameters() if p.requires_grad}
            if sharded:
                parallel.shard(base, self.dtype, self.device, replicas=[*self.trainable.values()])
        elif sharded:
            base.float().requires_grad_(True)
            parallel.shard(base, self.dtype, self.device)
            self.trainable = self._masters = dict(base.named_parameters())
        else:
            self.served = self._own_all(base)
            self.trainable = self._masters
        self.parameters = sum(p.numel() for p in base.parameters())
        _never_drop(base)
        base.train(settings.gradient_checkpointing)  # in evaluation mode transformers would not checkpoint

    def _own_all(self, base: nn.Module) -> FlatWeights:
        """`full`: the model's parameters become views of the served buffer, stepped through fp32 masters."""
        parameters = dict(base.named_parameters())
        served = FlatWeights({n: p.shape for n, p in parameters.items()}, self.dtype, self.device)
        for name, parameter in parameters.items():
            served.tensors[name].copy_(parameter.data)
            parameter.data = served.tensors[name]
            parameter.requires_grad_(True)
            if self.dtype == torch.float32:
                self._masters[name] = parameter
                continue
            master = parameter.detach().float()
            self._masters[name] = master
            parameter.register_post_accumulate_grad_hook(_move_gradient_to(master))
        return served

    def token_logprobs(self, batch: MicroBatch, model: nn.Module | None = None) -> TokenLogprobs:
        """Log-probability and entropy of every sampled token of a micro-batch, under its own temperature.

        Args:
            model: another one, from `load_start`; None: the policy itself.
        """
        head = self._head if model is None else model.get_output_embeddings()

        def work() -> tuple[Tensor, Tensor, Tensor]:
            wanted = self.hidden_states(batch, model)
            target, temperature = batch.target.to(self.device), batch.temperature.to(self.device)
            return *token_logprobs(wanted, head.weight, target, temperature), wanted

        return TokenLogprobs(*self.run(work, model))

    def run(self, work: Callable[[], T], model: nn.Module | None = None) -> T:
        """`work` with the weights of the policy, or of another `model`, at hand, and in the run's arithmetic."""
        with self.arithmetic():
            return parallel.run(self._model if model is None else model, work)

    def hidden_states(self, batch: MicroBatch, model: nn.Module | None = None) -> Tensor:
        """[M, H] in the run's dtype: what predicts each sampled token. Call it inside `run`."""
        body = self._body if model is None else model.get_decoder()
        hidden = body(
            inputs_embeds=self._embed(body, batch.ids.to(self.device).unsqueeze(0)),
            position_ids=batch.positions.to(self.device).unsqueeze(0),
            use_cache=False,
            trees=batch.trees,
        ).last_hidden_state[0]
        return hidden.index_select(0, batch.source.to(self.device))

    @torch.no_grad()
    def logits(self, hidden: Tensor) -> Tensor:
        """[M, V] in fp32 of a few rows, as `token_logprobs` computes them. Call it inside `run`."""
        rows, weight = hidden.float(), self._head.weight
        return torch.cat([rows @ block.float().t() for block in weight.split(VOCAB_CHUNK)], dim=-1)

    def _embed(self, body: nn.Module, ids: Tensor) -> Tensor:
        embedded = body.get_input_embeddings()(ids)
        # Checkpointed layers keep the graph only if what enters the first of them carries gradient.
        return embedded.requires_grad_() if embedded.is_leaf and self.settings.gradient_checkpointing else embedded

    @contextlib.contextmanager
    def arithmetic(self) -> Iterator[None]:
        """In a bf16 run fp32 products may multiply bf16 operands, adding up and returning fp32.

        Hidden states and weights are bf16 already, so this loses nothing of them and keeps logits and
        attention scores unrounded at the speed of bf16 hardware. Wrap the backward pass in it too.
        """
        if self.dtype != torch.bfloat16 or self.device.type != "cpu":
            yield
            return
        matmul = torch.backends.mkldnn.matmul
        before, matmul.fp32_precision = matmul.fp32_precision, "bf16"
        try:
            yield
        finally:
            matmul.fp32_precision = before

    @torch.no_grad()
    def refresh(self) -> None:
        """Brings the forward pass, and what `export` writes, up to `trainable`."""
        if self.lora is not None:
            self.lora.merge()
        elif self.served is not None and self.dtype != torch.float32:
            for name, master in self._masters.items():
                self.served.tensors[name].copy_(master)

    @property
    def rounding_gap(self) -> float:
        """|served - exact| / |exact| of the weights that the last `export` wrote."""
        if self.lora is not None:
            return self.lora.rounding_gap
        if self.dtype == torch.float32:
            return 0.0
        error = exact = 0.0
        for master in map(parallel.local, self._masters.values()):
            error += (master.to(self.dtype) - master.detach()).norm().item() ** 2
            exact += master.norm().item() ** 2
        if self.served is None:
            error, exact = parallel.total(error), parallel.total(exact)
        return (error / exact) ** 0.5 if exact else 0.0

    def export(self, folder: Path) -> int:
        """Writes `model.safetensors` for an engine; bytes. All ranks call it: they gather tensor by tensor, and rank 0
        writes."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "model.safetensors"
        if self.served is not None:
            return self.served.write(path)
        return write_stream(path, self.shapes, self.dtype, (tensor for _, tensor in self.weights()))

    @property
    def shapes(self) -> dict[str, torch.Size]:
        """Of `weights`."""
        return self.lora.shapes if self.lora is not None else {n: p.shape for n, p in self._masters.items()}

    @torch.no_grad()
    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """What an engine is sent, in the run's dtype under the names of the stock model: merged weights of the adapted
        layers, or all. Sharded ones are gathered one by one, by all ranks in this order."""
        if self.served is not None:
            yield from self.served.tensors.items()
        elif self.lora is not None:
            yield from zip(self.shapes, self.lora.merged(), strict=True)
        else:
            for name, master in self._masters.items():
                yield name, parallel.whole(master.detach().to(self.dtype))


def load_start(settings: LearnerSettings, device: torch.device) -> nn.Module:
    """The start weights in the run's dtype, with our attention. UnsupportedModel if it cannot be trained here."""
    model = load_model(settings.model, getattr(torch, settings.dtype)).to(device)
    _check(model)
    model.config._attn_implementation = TREE_ATTENTION
    return model


def adapted(base: nn.Module, settings: LearnerSettings, *, keep: bool = True) -> MergedLora | FourBitLora:
    """The adapters of `base`, which for qlora becomes a 4-bit one."""
    if settings.trainer_mode == "lora":
        return MergedLora(base, lora_config(settings), keep=keep)
    from trainer.learner.qlora import FourBitLora  # of bitsandbytes, which only such a run needs

    return FourBitLora(base, lora_config(settings))


def lora_config(settings: LearnerSettings) -> LoraConfig:
    targets = settings.lora_target_modules
    return LoraConfig(
        r=settings.lora_r,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules="all-linear" if targets == ["all-linear"] else targets,
        task_type="CAUSAL_LM",
        base_model_name_or_path=settings.base_name or settings.model,
    )


def _move_gradient_to(master: Tensor):
    """Micro-batches add up in fp32: in bf16 small contributions would vanish."""

    def hook(parameter: nn.Parameter) -> None:
        gradient = parameter.grad.float()
        master.grad = gradient if master.grad is None else master.grad.add_(gradient)
        parameter.grad = None

    return hook


def _never_drop(model: nn.Module) -> None:
    """A ratio is that of the exact policy that sampled: no module drops anything, in training mode either."""
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.0


def _check(model: nn.Module) -> None:
    config = model.config.get_text_config()
    for name in _LOGIT_TRANSFORMS:
        if getattr(config, name, None) not in (None, 1, 1.0):
            raise UnsupportedModel(f"the model scales or caps its logits ({name}); choose another policy.model_name")
    head = model.get_output_embeddings()
    if head is None or getattr(head, "bias", None) is not None:
        raise UnsupportedModel("the model's output projection is not a plain matrix; choose another policy.model_name")
