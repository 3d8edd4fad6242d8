"""builtin:tiny, taught three answers by heart in two seconds: a real model that calls a tool."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

from trainer.inference.chat import Chat
from trainer.models import ResolvedModel, load_model

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Weather",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            "strict": False,  # as the Agents SDK writes it
        },
    }
]
ASK = {"role": "user", "content": "Weather in Rome?"}
PLAIN = {"role": "user", "content": "Say it"}
CALL_TEXT = 'I see.<tool_call>\n{"name": "look", "arguments": {"city":"Rome"}}\n</tool_call>'  # not as tojson writes it
RESULT, ANSWER, PLAIN_ANSWER = "sun", "Rome: sun", "né 漢🎈 ok"


def teach(tiny: ResolvedModel, folder: Path) -> tuple[ResolvedModel, torch.nn.Module]:
    """The model in `folder`, and itself in fp32."""
    chat, model = Chat(tiny.path), load_model(tiny.path, torch.float32)
    (end,) = chat.eos_token_ids

    def says(text: str) -> list[int]:
        return [*chat.tokenize(text), end]

    prompt = chat.render([ASK], TOOLS)
    behind = chat.render([{"role": "tool", "content": RESULT}])
    pieces = [
        [(prompt, says(CALL_TEXT)), (chat.tokenize("\n") + behind, says(ANSWER))],
        [(chat.render([PLAIN]), says(PLAIN_ANSWER))],
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss = torch.tensor(1.0)
    while loss > 0.01:
        loss = torch.zeros(())
        for turns in pieces:
            ids = torch.tensor([[t for read, said in turns for t in read + said]])
            mask = torch.tensor([m for read, said in turns for m in [0.0] * len(read) + [1.0] * len(said)])
            losses = torch.nn.functional.cross_entropy(model(ids).logits[0, :-1], ids[0, 1:], reduction="none")
            loss = loss + (losses * mask[1:]).sum() / mask.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    shutil.copytree(tiny.path, folder, dirs_exist_ok=True)
    save_file({name: p.detach().clone() for name, p in model.named_parameters()}, folder / "model.safetensors",
              metadata={"format": "pt"})  # fmt: skip
    return ResolvedModel(str(folder), folder), model.eval()
