"""Make a trained run part of the package: python tools/ship.py RUN NAME.

Weights are kept with the 10 bits of float16, half the size, and measured so; the folder its data were in is left out.
"""

import json
import sys
from pathlib import Path

import torch

from segma import files, measure, run_data, runs

KEPT = ("labels.json", "log.jsonl")


def ship(run: Path, name: str) -> None:
    place = runs.TRAINED / name
    place.mkdir(parents=True, exist_ok=True)
    about = files.read_json(run / "config.json")
    about["data"]["where"] = ""  # where such data are by default
    files.write_json(place / "config.json", about)
    tensors, metadata = runs.read_weights(runs.read(run))
    small = {key: value.half() if value.dtype == torch.float32 else value for key, value in tensors.items()}
    files.write_tensors(place / "model.safetensors", small, metadata)
    for file in KEPT:
        files.write(place / file, (run / file).read_bytes())
    shipped = runs.read(place)
    files.write_json(place / "results.json", measure.alone(shipped, run_data.load(shipped), runs.load_model(shipped)))
    sizes = {file.name: file.stat().st_size for file in place.iterdir()}
    print(json.dumps(sizes), f"{sum(sizes.values()):,} bytes")


if __name__ == "__main__":
    ship(Path(sys.argv[1]), sys.argv[2])
