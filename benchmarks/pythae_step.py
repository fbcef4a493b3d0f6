"""Samples per second of pythae's own trainer with its WAE-MMD, at the paper's MNIST network and batch of 200.

    .bench/pythae/bin/python benchmarks/pythae_step.py [THREADS] [EPOCHS]     prints one JSON object

For an environment of its own (`make bench` makes it), where segma is not: cpu_step.py calls it. Random images.
"""

import json
import logging
import statistics
import sys
import tempfile
import time
from importlib.metadata import version

import torch
from pythae.data.datasets import BaseDataset
from pythae.models import WAE_MMD, WAE_MMD_Config
from pythae.models.base.base_utils import ModelOutput
from pythae.models.nn import BaseDecoder, BaseEncoder
from pythae.trainers import BaseTrainer, BaseTrainerConfig
from pythae.trainers.training_callbacks import TrainingCallback
from torch import Tensor, nn

ROWS, BATCH = 6000, 200


class Encoder(BaseEncoder):
    def __init__(self) -> None:
        super().__init__()
        dense = nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
        self.layers = nn.Sequential(nn.Flatten(), *dense)

    def forward(self, x: Tensor) -> ModelOutput:
        return ModelOutput(embedding=self.layers(x))


class Decoder(BaseDecoder):
    def __init__(self) -> None:
        super().__init__()
        dense = nn.Linear(10, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 784)
        self.layers = nn.Sequential(*dense, nn.Sigmoid(), nn.Unflatten(1, (1, 28, 28)))

    def forward(self, z: Tensor) -> ModelOutput:
        return ModelOutput(reconstruction=self.layers(z))


class Clock(TrainingCallback):
    """When the steps of each epoch began and ended; what the trainer does between epochs is not counted."""

    def __init__(self) -> None:
        self.began: list[float] = []
        self.ended: list[float] = []

    def on_epoch_begin(self, *_, **__) -> None:
        self.began.append(time.perf_counter())
        self.ended.append(0.0)

    def on_train_step_end(self, *_, **__) -> None:
        self.ended[-1] = time.perf_counter()


def measure(threads: int, epochs: int) -> dict:
    torch.set_num_threads(threads)
    logging.disable(logging.INFO)
    images = torch.rand(ROWS, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    model = WAE_MMD(WAE_MMD_Config(input_dim=(1, 28, 28), latent_dim=10), Encoder(), Decoder())
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        config = BaseTrainerConfig(
            output_dir=folder,
            per_device_train_batch_size=BATCH,
            num_epochs=1 + epochs,
            optimizer_cls="Adam",
            learning_rate=3e-4,
            no_cuda=True,
        )
        BaseTrainer(model, BaseDataset(images, torch.zeros(ROWS)), training_config=config, callbacks=[clock]).train()
    spent = [end - begin for begin, end in zip(clock.began, clock.ended, strict=True)][1:]  # the first warms up
    return {
        "samples_per_second": ROWS / statistics.median(spent),
        "epochs": epochs,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "pythae": version("pythae"),
    }


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    print(json.dumps(measure(*(given + [torch.get_num_threads(), 3][len(given) :]))))
