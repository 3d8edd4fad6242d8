from __future__ import annotations

import copy

import pytest
import torch

from tests.inference.conftest import drain, random_prompt, reference_logprobs, run, tokens, write_update
from trainer.inference.engine import Sampling
from trainer.inference.hf_forward import HFForward
from trainer.inference.weightfiles import WeightFiles

GREEDY = Sampling(temperature=0, max_tokens=12)


def greedy_reference(model, prompt: list[int], count: int) -> list[int]:
    ids = torch.tensor([prompt])
    with torch.inference_mode():
        out = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            min_new_tokens=count,
            max_new_tokens=count,
            pad_token_id=258,
        )
    return out[0, len(prompt) :].tolist()


@pytest.fixture(params=["llama", "hf"])
def either_forward(request, forward, tiny):
    return forward if request.param == "llama" else HFForward.load(tiny.path, torch.float32)


def test_greedy_equals_generate_under_continuous_admission(hf, make_decoder, either_forward):
    prompts = {i: random_prompt(i, n) for i, n in enumerate((5, 40, 17, 40, 3, 90))}
    decoder = make_decoder(forward=either_forward, max_num_seqs=3)  # the rest waits for a free row
    items: dict[int, list] = {}

    def steps(count: int) -> None:
        for _ in range(count):
            for item in decoder.step():
                items.setdefault(item.id, []).append(item)

    decoder.submit(5, prompts[5], GREEDY)
    steps(3)
    for i in (0, 1, 2):
        decoder.submit(i, prompts[i], Sampling(temperature=0, max_tokens=4 + 3 * i))
    steps(2)
    for i in (3, 4):
        decoder.submit(i, prompts[i], GREEDY)
    while decoder.busy:
        steps(1)
    for i, prompt in prompts.items():
        assert tokens(items[i]) == greedy_reference(hf, prompt, len(items[i]))
        assert [x.finish for x in items[i]] == [None] * (len(items[i]) - 1) + ["length"]
    assert [len(items[i]) for i in range(6)] == [4, 7, 10, 12, 12, 12]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_equal_a_fresh_forward_pass(hf, make_decoder, either_forward, temperature):
    sampling = [Sampling(temperature=temperature, max_tokens=30, seed=i) for i in range(4)]
    shared = random_prompt(0, 33)
    prompts = [shared, shared, shared[:20] + random_prompt(1, 50), random_prompt(2, 4)]
    items = run(make_decoder(forward=either_forward), {i: (prompts[i], sampling[i]) for i in range(4)})
    for i, prompt in enumerate(prompts):
        expected = reference_logprobs(hf, prompt, tokens(items[i]), temperature)
        torch.testing.assert_close(torch.tensor([x.logp for x in items[i]]), expected, atol=1e-5, rtol=0)


def test_tokens_depend_on_the_seed_and_not_on_the_company(make_decoder):
    prompt = random_prompt(3, 30)
    wanted = (prompt, Sampling(temperature=1, max_tokens=25, seed=77))
    others = {i: (random_prompt(i, 10 * i), Sampling(temperature=1, max_tokens=7 * i, seed=i)) for i in range(1, 6)}
    alone = tokens(run(make_decoder(), {0: wanted})[0])
    assert tokens(run(make_decoder(), {**others, 0: wanted})[0]) == alone
    assert tokens(run(make_decoder(), {0: (prompt, Sampling(temperature=1, max_tokens=25, seed=78))})[0]) != alone


def test_deterministic_mode_gives_the_same_bits_in_any_company(make_decoder):
    wanted = (random_prompt(3, 30), Sampling(temperature=1, max_tokens=20, seed=7))
    others = {i: (random_prompt(i, 9 * i), Sampling(temperature=1, max_tokens=4 * i, seed=i)) for i in range(1, 6)}
    alone = run(make_decoder(deterministic=True), {0: wanted})[0]
    decoder = make_decoder(deterministic=True)
    for id, request in others.items():
        decoder.submit(id, *request)
    for _ in range(2):
        decoder.step()
    decoder.submit(0, *wanted)
    assert drain(decoder)[0] == alone


def test_a_known_prompt_and_a_next_turn_start_from_the_cache(make_decoder, hf):
    decoder = make_decoder()
    first = random_prompt(5, 60)
    answer = tokens(run(decoder, {0: (first, GREEDY)})[0])
    computed = []
    plain = decoder._forward.prefill

    class Spy:
        def __getattr__(self, name):
            return getattr(forward, name)

        def prefill(self, batch, kv):
            computed.extend(len(p.ids) for p in batch)
            return plain(batch, kv)

    forward, decoder._forward = decoder._forward, Spy()
    assert tokens(run(decoder, {1: (first, GREEDY)})[1]) == answer
    assert computed == []  # the prompt is there whole
    second = first + answer + random_prompt(6, 10)
    got = run(decoder, {2: (second, Sampling(temperature=1, max_tokens=9, seed=1))})[2]
    assert computed == [11]  # the newest sampled token was never fed, so it is computed with the suffix
    expected = reference_logprobs(hf, second, tokens(got), 1.0)
    torch.testing.assert_close(torch.tensor([x.logp for x in got]), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "names",
    [
        ["model.layers.1.self_attn.q_proj.weight", "model.layers.2.mlp.down_proj.weight"],
        ["model.embed_tokens.weight", "model.norm.weight"],
    ],
)
def test_weights_swap_between_steps_and_the_sequence_goes_on(tmp_path, hf, make_decoder, either_forward, names):
    update = write_update(tmp_path / "v1", hf, names)
    prompt = random_prompt(9, 25)
    decoder = make_decoder(forward=either_forward)
    decoder.submit(0, prompt, Sampling(temperature=0, max_tokens=8))
    before = [decoder.step()[0] for _ in range(4)]
    decoder.swap(decoder.forward.updated(WeightFiles(tmp_path / "v1")), 1)
    (tmp_path / "v1" / "model.safetensors").unlink()  # nothing live reads the file
    assert decoder.version == 1
    after = drain(decoder)[0]

    new = copy.deepcopy(hf)
    new.load_state_dict(update, strict=False)
    # the reference: the old model's cache, then the new model token by token
    with torch.inference_mode():
        out = hf(torch.tensor([prompt + tokens(before)[:-1]]), use_cache=True)
        expected, token, cache = [], tokens(before)[-1], out.past_key_values
        for _ in range(4):
            out = new(torch.tensor([[token]]), past_key_values=cache, use_cache=True)
            token, cache = int(out.logits[0, -1].argmax()), out.past_key_values
            expected.append(token)
    assert tokens(after) == expected
    # a new sequence sees the new weights only, not the old prompt's cache
    fresh = run(decoder, {1: (prompt, GREEDY)})[1]
    assert tokens(fresh) == greedy_reference(new, prompt, 12)
    # an update is over the start weights: the next one does not keep what this one changed
    back = write_update(tmp_path / "v2", hf, ["model.layers.0.mlp.up_proj.weight"], scale=0.0)
    assert back
    decoder.swap(decoder.forward.updated(WeightFiles(tmp_path / "v2")), 2)
    assert tokens(run(decoder, {2: (prompt, GREEDY)})[2]) == greedy_reference(hf, prompt, 12)


def test_an_update_that_does_not_fit_is_refused(tmp_path, hf, forward):
    from safetensors.torch import save_file

    save_file({"model.layers.9.x.weight": torch.zeros(2)}, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=r"model\.layers\.9\.x\.weight"):
        forward.updated(WeightFiles(tmp_path / "a.safetensors"))
    save_file({"model.norm.weight": torch.zeros(2)}, tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match=r"model\.norm\.weight is \(2,\)"):
        forward.updated(WeightFiles(tmp_path / "b.safetensors"))
    (tmp_path / "c.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0torn")
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        WeightFiles(tmp_path / "c.safetensors")


def test_end_token_stop_string_limit_and_abort(make_decoder, hf, tokenizer):
    prompt = random_prompt(11, 20)
    greedy = greedy_reference(hf, prompt, 12)
    end = make_decoder(eos_ids={greedy[5]})
    cut = greedy.index(greedy[5])
    items = run(end, {0: (prompt, GREEDY)})[0]
    assert (tokens(items), items[-1].finish) == (greedy[: cut + 1], "stop")

    # a stop string over a token boundary; its text stays in the tokens
    seeded = Sampling(temperature=1, max_tokens=60, seed=2)
    free = tokens(run(make_decoder(), {0: (prompt, seeded)})[0])
    texts = [tokenizer.decode(free[: i + 1]) for i in range(len(free))]
    at = next(i for i in range(10, 60) if texts[i][-2:].isascii() and texts[i].find(texts[i][-2:]) == len(texts[i]) - 2)
    stop = texts[at][-2:]
    items = run(make_decoder(), {0: (prompt, Sampling(1, 60, (stop, "never"), 2))})[0]
    assert tokens(items) == free[: at + 1]
    assert (items[-1].finish, items[-1].stop_detail) == ("stop", stop)

    full = run(make_decoder(max_model_len=24), {0: (prompt, GREEDY)})[0]
    assert (len(full), full[-1].finish) == (4, "length")
    with pytest.raises(ValueError, match="context limit is 20"):
        make_decoder(max_model_len=20).submit(0, prompt, GREEDY)

    decoder = make_decoder(max_num_seqs=2)
    for i in range(4):
        decoder.submit(i, random_prompt(i, 9), GREEDY)
    decoder.step()
    decoder.abort(0)  # running
    decoder.abort(3)  # waiting
    decoder.abort(99)  # unknown: late aborts are no error
    left = drain(decoder)
    assert sorted(left) == [1, 2]
    assert tokens(left[2]) == greedy_reference(hf, random_prompt(2, 9), 12)


def test_capacity_grows_with_the_longest_sequence(make_decoder, hf, tiny):
    from trainer.inference.forward import load_forward

    forward = load_forward(tiny.path, torch.float32, 700)
    decoder = make_decoder(forward=forward, max_model_len=700)
    prompts = {0: random_prompt(1, 250), 1: random_prompt(2, 10), 2: random_prompt(3, 600)}
    items = run(decoder, {i: (p, GREEDY) for i, p in prompts.items()})
    for i, prompt in prompts.items():
        assert tokens(items[i]) == greedy_reference(hf, prompt, 12)
