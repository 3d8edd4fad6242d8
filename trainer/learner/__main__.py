"""python -m trainer.learner --socket PATH [--threads N] [--role reference]"""

from __future__ import annotations

import argparse
import logging
import os
import sys


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m trainer.learner", description="The learner of a run.")
    parser.add_argument("--socket", required=True, help="the coordinator's: a path, or tcp://HOST:PORT")
    parser.add_argument("--role", choices=("learner", "reference"), default="learner")
    parser.add_argument("--threads", type=int, help="CPU threads; default: one a core")
    args = parser.parse_args()
    rank = f" rank {os.environ['RANK']}" if os.environ.get("WORLD_SIZE", "1") != "1" else ""  # as torchrun says
    logging.basicConfig(
        level=os.environ.get("RLTUI_LOG_LEVEL", "INFO").upper(),
        format=f"%(asctime)s %(levelname)s %(name)s{rank}: %(message)s",
    )
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)  # misses a kernel that no run uses

    # torch takes seconds to load, so what can fail at once comes before it.
    from trainer.frames import BlockingChannel
    from trainer.processes import die_with_parent

    die_with_parent()
    try:
        channel = BlockingChannel.connect(args.socket)
    except OSError as error:
        print(f"the {args.role} cannot reach its coordinator at {args.socket}: {error.strerror}", file=sys.stderr)
        return 3

    import torch
    from transformers.utils import logging as transformers_logging

    from trainer.learner import parallel
    from trainer.learner.reference_worker import reference_answers
    from trainer.learner.worker import keep_freed_memory, serve

    transformers_logging.disable_progress_bar()
    if args.threads:
        torch.set_num_threads(args.threads)
    keep_freed_memory()
    try:
        serve(channel, None if args.role == "learner" else reference_answers())
    finally:
        channel.close()
        parallel.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
