"""The demo as a user runs it: the 135M model on the built-in facts, minutes long."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

KEYS = {
    "run_dir",
    "seconds",
    "iterations",
    "eval_before",
    "eval_after",
    "samples_per_sec",
    "gen_tokens_per_sec",
    "peak_rss_mb",
    "engine",
}


def test_the_demo_learns_on_held_out_questions_and_its_adapter_loads_with_stock_peft(tmp_path):
    run_dir = tmp_path / "run"
    done = subprocess.run(
        [sys.executable, "-m", "rltui", "demo", "--headless", "--json", "--run-dir", str(run_dir)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert report.keys() >= KEYS and report["run_dir"] == str(run_dir)
    assert report["eval_after"] > report["eval_before"] + 0.1
    assert "after" in done.stderr and "next" in done.stderr

    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from trainer.models import resolve_model

    checkpoint = next((run_dir / "checkpoints").glob("step_*"))
    base = AutoModelForCausalLM.from_pretrained(resolve_model("builtin:smollm2-135m").path, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    question = [{"role": "user", "content": "Answer in as few words as possible. What is the opposite of day?"}]
    ids = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt")["input_ids"]
    before = base(ids).logits
    after = PeftModel.from_pretrained(base, checkpoint)(ids).logits
    assert not torch.allclose(before, after, atol=0.1)
