"""Run the benchmarks that fit this machine, keep their results in docs/performance, and refresh docs/performance.md.

    python benchmarks/run.py [NAME ...] [--device cpu|cuda]     all, or some; a GPU is used where there is one

A result goes to NAME-cpu.json, or on a GPU to NAME-<its name>.json, over what was measured there before.
"""

import argparse
import json
import sys
import time
import traceback

import torch
from page import BENCHMARKS, FOLDER, render


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    fitting = [name for name, (_, module) in BENCHMARKS.items() if given.device in module.DEVICES]
    for name in given.names:
        if name not in fitting:
            parser.error(f"{name}: on {given.device} there are {', '.join(fitting)}")
    FOLDER.mkdir(exist_ok=True)
    failed = [name for name in given.names or fitting if not run(name, given.device)]
    print(f"wrote {render()}")
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, device: str) -> bool:
    """Measure, show and keep; a benchmark that fails is reported and does not take the others with it."""
    began, (title, module) = time.perf_counter(), BENCHMARKS[name]
    print(f"{name}: {title} ...", flush=True)
    try:
        result = module.measure(device)
        print(f"{module.page(result)}\n{name}: {time.perf_counter() - began:.0f} s\n", flush=True)
    except Exception:
        traceback.print_exc()
        return False
    where = (result["machine"]["gpu"] or "cpu").lower().replace(" ", "-")
    (FOLDER / f"{name}-{where}.json").write_text(json.dumps(result, indent=1) + "\n")
    return True


if __name__ == "__main__":
    sys.exit(main())
