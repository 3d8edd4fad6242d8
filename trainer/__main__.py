"""`python -m trainer run CONFIG --run-dir DIR`, `… serve-policy CONFIG`, `… export CHECKPOINT --out DIR`,
`… canary RUN`."""

import os
import sys

EXAMPLES = {
    "run": "python -m trainer run my.toml --run-dir runs/first",
    "serve-policy": "python -m trainer serve-policy my.toml",
    "export": "python -m trainer export runs/first/checkpoints/step_36 --out merged --base builtin:smollm2-135m",
    "canary": "python -m trainer canary runs/first",
}


def _main() -> int:
    """Imports inside: a Ctrl-C while they load, a second or two, ends as one after them does."""
    try:
        import argparse

        from trainer import canary, export, run, serve_policy

        def shown(*names: str) -> str:
            return "\n".join(["examples:", *(f"  {EXAMPLES[name]}" for name in names)])

        modules = {
            "run": (run, "run a config to its end"),
            "serve-policy": (serve_policy, "serve a config's model until stdin closes"),
            "export": (export, "the whole model of a checkpoint, merged"),
            "canary": (canary, "whether the engine runs the weights of a checkpoint"),
        }
        as_written = argparse.RawDescriptionHelpFormatter
        parser = argparse.ArgumentParser(
            prog="python -m trainer",
            description="The training engine of rltui.",
            epilog=shown(*EXAMPLES),
            formatter_class=as_written,
        )
        verbs = parser.add_subparsers(dest="verb", required=True)
        for name, (module, about) in modules.items():
            verb = verbs.add_parser(
                name, help=about, description=f"{about}.", epilog=shown(name), formatter_class=as_written
            )
            module.add_arguments(verb)
        arguments = parser.parse_args()
        return modules[arguments.verb][0].main(arguments)
    except KeyboardInterrupt:
        print("interrupted before the run began", file=sys.stderr, flush=True)
        # Not by way of the interpreter, which ends by SIGINT itself if the interrupt met it inside an exec().
        os._exit(130)


if __name__ == "__main__":
    sys.exit(_main())
