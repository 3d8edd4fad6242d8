"""`python -m trainer run CONFIG --run-dir DIR`, `… serve-policy CONFIG`, `… export CHECKPOINT --out DIR`,
`… canary RUN`."""

import os
import sys


def _main() -> int:
    """Imports inside: a Ctrl-C while they load, a second or two, ends as one after them does."""
    try:
        import argparse

        from trainer import canary, export, run, serve_policy

        parser = argparse.ArgumentParser(prog="python -m trainer", description="The training engine of rltui.")
        verbs = parser.add_subparsers(dest="verb", required=True)
        run.add_arguments(verbs.add_parser("run", help="run a config to its end"))
        serve_policy.add_arguments(verbs.add_parser("serve-policy", help="serve a config's model until stdin closes"))
        export.add_arguments(verbs.add_parser("export", help="the whole model of a checkpoint, merged"))
        canary.add_arguments(verbs.add_parser("canary", help="whether the engine runs the weights of a checkpoint"))
        arguments = parser.parse_args()
        modules = {"run": run, "serve-policy": serve_policy, "export": export, "canary": canary}
        return modules[arguments.verb].main(arguments)
    except KeyboardInterrupt:
        print("interrupted before the run began", file=sys.stderr, flush=True)
        # Not by way of the interpreter, which ends by SIGINT itself if the interrupt met it inside an exec().
        os._exit(130)


if __name__ == "__main__":
    sys.exit(_main())
