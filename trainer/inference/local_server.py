"""The process of the local engine: `python -m trainer.inference.local_server --socket PATH --model DIR ...`.

It connects to the coordinator's socket and speaks frames (trainer/frames.py):

    coordinator                              engine
                                             hello {schema, pid, seconds} once, or error {message} and the end
    generate {id, prompt_ids, sampling}  ->  tokens {version, items: [[id, token, logp, finish, stop_detail, top]]},
                                             one frame a decode step for all calls; error {id, message}
    abort {id}                               no answer
    load {id, path, version}             ->  result {id, seconds} or error {id, message}
    stop {}                                  the process ends, as it does when the socket closes

One thread decodes; one reads the socket; one, now and then, prepares weights. Without work the decoding thread
sleeps in a queue and its OpenMP workers do too (the parent sets OMP_WAIT_POLICY=PASSIVE): the learner uses the
same cores while the engine is idle.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import sys
import threading
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer

from trainer.frames import SCHEMA, BlockingChannel, Frame
from trainer.inference.decoder import Decoder
from trainer.inference.engine import Sampling
from trainer.inference.forward import Forward, load_forward
from trainer.inference.weightfiles import WeightFiles
from trainer.models import eos_token_ids


class Server:
    """Frames in, decode steps, frames out."""

    def __init__(self, channel: BlockingChannel, decoder: Decoder) -> None:
        self._channel, self._decoder = channel, decoder
        self._inbox: queue.SimpleQueue[Frame | _Loaded | None] = queue.SimpleQueue()

    def run(self) -> None:
        """Returns when the coordinator says stop or goes away."""
        threading.Thread(target=self._read, daemon=True).start()
        while True:
            if not self._decoder.busy and not self._handle(self._inbox.get()):
                return
            while not self._inbox.empty():
                if not self._handle(self._inbox.get()):
                    return
            if self._decoder.busy:
                items = self._decoder.step()
                self._channel.send({"type": "tokens", "version": self._decoder.version, "items": items})

    def _read(self) -> None:
        while (frame := self._channel.receive()) is not None:
            self._inbox.put(frame)
        self._inbox.put(None)

    def _handle(self, frame: Frame | _Loaded | None) -> bool:
        """False ends the process."""
        if frame is None:
            return False
        if isinstance(frame, _Loaded):
            self._decoder.swap(frame.forward, frame.version)
            self._channel.send({"type": "result", "id": frame.id, "seconds": frame.seconds})
            return True
        match frame["type"]:
            case "generate":
                try:
                    self._decoder.submit(frame["id"], frame["prompt_ids"], _sampling(frame["sampling"]))
                except ValueError as error:
                    self._channel.send({"type": "error", "id": frame["id"], "message": str(error)})
            case "abort":
                self._decoder.abort(frame["id"])
            case "load":
                # beside the decoding, which goes on under the old weights until the new ones are whole
                threading.Thread(target=self._load, args=(frame, self._decoder.forward), daemon=True).start()
            case "refused":  # from our own loader: only this thread writes to the socket
                self._channel.send({**frame, "type": "error"})
            case "stop":
                return False
        return True

    @torch.inference_mode()
    def _load(self, frame: Frame, forward: Forward) -> None:
        start = time.monotonic()
        try:
            new = forward.updated(WeightFiles(Path(frame["path"])))
        except (OSError, ValueError) as error:
            self._inbox.put({"type": "refused", "id": frame["id"], "message": str(error)})
            return
        self._inbox.put(_Loaded(frame["id"], new, frame["version"], time.monotonic() - start))


class _Loaded:
    """Weights that are ready for the decoding thread to take over."""

    def __init__(self, id: int, forward: Forward, version: int, seconds: float) -> None:
        self.id, self.forward, self.version, self.seconds = id, forward, version, seconds


def _sampling(fields: Frame) -> Sampling:
    return Sampling(**{**fields, "stop": tuple(fields.get("stop", ()))})


def end_ids(path: Path, tokenizer: Tokenizer) -> set[int]:
    """What ends a completion: the model's own ids, and the tokenizer's, with which its chat template closes a turn."""
    with contextlib.suppress(FileNotFoundError):
        token = json.loads((path / "tokenizer_config.json").read_text()).get("eos_token")
        own = tokenizer.token_to_id(token["content"] if isinstance(token, dict) else token or "")
        return {*eos_token_ids(path), *([] if own is None else [own])}
    return set(eos_token_ids(path))


def main() -> int:
    parser = argparse.ArgumentParser(prog="trainer.inference.local_server")
    parser.add_argument("--socket", required=True)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float32"])
    parser.add_argument("--max-model-len", required=True, type=int)
    parser.add_argument("--max-num-seqs", default=64, type=int)
    parser.add_argument("--threads", default=os.cpu_count(), type=int)
    parser.add_argument("--deterministic", action="store_true")
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    channel = BlockingChannel.connect(args.socket)
    start = time.monotonic()
    try:
        tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
        decoder = Decoder(
            load_forward(args.model, getattr(torch, args.dtype), args.max_model_len),
            eos_ids=end_ids(args.model, tokenizer),
            max_model_len=args.max_model_len,
            max_num_seqs=args.max_num_seqs,
            decode_text=lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False),
            deterministic=args.deterministic,
        )
    except Exception as error:  # whatever a broken model folder raises; the log has the rest
        channel.send({"type": "error", "id": None, "message": f"{type(error).__name__}: {error}"})
        raise
    channel.send({"type": "hello", "schema": SCHEMA, "pid": os.getpid(), "seconds": time.monotonic() - start})
    try:
        Server(channel, decoder).run()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the coordinator is gone
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a thread that is still loading weights must not hold the process
