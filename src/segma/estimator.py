"""SeGMA, the scikit-learn face of the package: fit on few labels, then classify, generate and edit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from segma import attributes, given, latent, runs
from segma.config import Config, override
from segma.data.arrays import Data
from segma.data.labels import as_names, encode_labels
from segma.data.values import images_or_table, note_doubtful
from segma.draw import to_uint8
from segma.errors import InputError
from segma.launch import choose_device, new_model, place
from segma.model import Model, decode_rows, encode_rows, settle
from segma.recipes import recipe
from segma.state import State
from segma.step import steps_in_all
from segma.train import fit

NAMED = ("latent_dim", "epochs", "batch_size", "alpha", "beta")  # the settings that are parameters of their own
# Those that X, y, recipe and random_state decide:
ELSEWHERE = ("data", "labels", "label_seed", "holdout", "image_size", "skip_broken", "recipe", "seed")
KINDS = {"int": int, "float": float, "bool": lambda name: name == "True"}  # what a class was, from its name


class SeGMA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):
    """Semi-supervised Gaussian mixture auto-encoder.

    X is (n, features) numbers, or images (n, h, w) or (n, h, w, c), uint8 in 0..255 or float in 0..1; what comes back
    has the form and range that went in. y is -1 where the label is not known, or NaN ("" or a gap among texts).

    `latent_dim` is the dimension of the codes, `epochs` how often all rows are seen, `alpha` the weight of the distance
    (log d^2), `beta` that of the labels (cross-entropy), `device` auto, cpu or cuda. Settings left at None are those of
    the `recipe`, best or paper, for data of this shape and size; `settings` takes the other fields of
    segma.config.Config, and what is named goes before it: a search may vary `alpha` whatever `settings` say. With
    `verbose` ten lines are printed while it trains.

    Learned: classes_, class_distances_ (k x k, of the trained means), class_shares_ (p_k), model_
    (the torch module), config_, losses_.
    """

    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        latent_dim: int | None = None,
        *,
        recipe: str = "best",
        epochs: int | None = None,
        batch_size: int | None = None,
        alpha: float | None = None,
        beta: float | None = None,
        settings: dict | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.latent_dim = latent_dim
        self.recipe = recipe
        self.epochs = epochs
        self.batch_size = batch_size
        self.alpha = alpha
        self.beta = beta
        self.settings = settings
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Train on all of X, and on the labels y where they are known: -1, "", None and NaN say that one is not."""
        x, form = self._samples(X, reset=True)
        y = given.labels(y)
        check_consistent_length(x, y)
        labels, _ = encode_labels(y)
        classes = np.array([y[labels == i][0] for i in range(labels.max() + 1)])
        columns = tuple(getattr(self, "feature_names_in_", ()))
        data = Data("arrays", x, labels, x[:0], labels[:0], tuple(map(str, classes)), columns)
        config, device = self._config(data), choose_device(self.device)
        state, last = State.start(new_model(data, config).to(device), config), steps_in_all(config, len(x))
        for step in fit(state, place(x, device), torch.from_numpy(labels).to(device), config):
            if self.verbose and 10 * step.number // last > 10 * (step.number - 1) // last:  # ten times
                terms = (f"{name.replace('_', ' ')} {value:.3g}" for name, value in step.values().items() if value)
                print(f"step {step.number} of {last}:", ", ".join(terms))
        settle(state.result.eval(), x, config.clouds)
        state.model.zero_grad(set_to_none=True)  # the estimator is kept, copied, pickled: without them
        self.losses_ = step.values()
        kind = {"i": "int", "u": "int", "f": "float", "b": "bool"}.get(classes.dtype.kind, "str")
        return self._adopt(state.result, config, classes, runs.describe(data, None, kind) | {"form": form}, last)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The mixture's posterior of each class, in the order of `classes_`."""
        z, _ = self._encode(X)
        return self.model_.mixture.log_joint(z).double().softmax(dim=1).cpu().numpy()

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest class of each sample."""
        numbers = self.predict_proba(X).argmax(axis=1)
        return self.classes_[numbers]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy over the rows whose label is known."""
        guess, truth = as_names(self.predict(X)), as_names(given.labels(y))
        check_consistent_length(guess, truth, sample_weight)
        known = truth != ""
        if not known.any():
            raise InputError("y has no label to compare with: all are -1")
        if not np.isin(truth[known], classes := as_names(self.classes_)).any():
            raise InputError(f"y has none of the classes {', '.join(classes)}; its first is {truth[known][0]}")
        weights = None if sample_weight is None else np.asarray(sample_weight)[known]
        return float(np.average((guess == truth)[known], weights=weights))

    def transform(self, X: Any) -> np.ndarray:
        """The codes."""
        z, _ = self._encode(X)
        return z.cpu().numpy()

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Codes back to samples, in the form and range of the training data."""
        check_is_fitted(self)
        Z = check_array(Z, dtype=np.float64, order="C", copy=True, input_name="Z")
        if Z.shape[1] != self._n_features_out:
            raise InputError(f"Z: codes of shape {Z.shape}, wanted is (n, {self._n_features_out})")
        return self._decode(torch.from_numpy(Z).to(self.model_.means), self._about["form"])

    def sample(self, n: int = 1, label: Any = None, random_state: Any = None, spread: float = 1.0) -> np.ndarray:
        """n new samples, of one class or by the classes' shares; `random_state` goes before the estimator's own.

        `spread` multiplies how far they lie from their class's mean: below 1 more typical, above 1 more unusual.
        """
        check_is_fitted(self)
        n = given.whole("n", n, 1)
        seed = given.seed(self.random_state if random_state is None else random_state)
        generator = torch.Generator(self.model_.means.device).manual_seed(seed)
        if label is None:
            y = torch.multinomial(self.model_.class_weights, n, replacement=True, generator=generator)
        else:
            y = torch.full((n,), given.one_class(label, self.classes_), device=generator.device)
        with torch.no_grad():
            z = self.model_.draw(y, generator, given.number("spread", spread))
        return self._decode(z, self._about["form"])

    def interpolate(self, a: Any, b: Any, steps: int = 11, path: str = "linear") -> np.ndarray:
        """(steps, ...) samples on the way from sample a to sample b, or (n, steps, ...) for two batches of n.

        `path` is "linear", or "density": around the empty space between classes (segma.density).
        """
        check_is_fitted(self)
        steps = given.whole("steps", steps, 2)
        if np.shape(a) != np.shape(b):
            raise InputError(f"a and b differ in shape: {np.shape(a)} and {np.shape(b)}")
        shape = tuple(self._about["shape"])
        single = np.shape(a) in (shape, shape[:2])  # a grey image may come without its channel
        (z_a, form), (z_b, _) = (self._encode(given.one_row(x) if single else x) for x in (a, b))
        codes = latent.interpolate(z_a, z_b, steps, self.model_.mixture, path)
        out = self._decode(codes.flatten(0, 1), form)
        return out if single else out.reshape(len(z_a), steps, *out.shape[1:])

    def transfer(self, X: Any, to: Any, t: float = 1.0, source: Any = None) -> np.ndarray:
        """X with its style in class `to`; 0 < t < 1 is on the way. `source` is X's class, else the posterior's.

        Both are one class, or one per sample. Where the classes' names are products of attributes, as "male, smiling",
        `to` may be a value of one, as "smiling": this is changed and the other attributes are kept.
        """
        z, form = self._encode(X)
        axis, goal = self._places(to, len(z))
        own, target = self._own(z, axis, source), latent.merge(self.model_.mixture, axis.groups)
        return self._decode(latent.transfer(z, own, goal, target, given.number("t", t)), form)

    def intensify(self, X: Any, away_from: Any = None, alpha: float = 0.5, source: Any = None) -> np.ndarray:
        """X with more of what sets its class apart from `away_from`; negative alpha: less.

        Away from one class, several (the mean of the differences), values of one attribute, or None: all other classes.
        """
        z, form = self._encode(X)
        axis, away = attributes.own(self._names), None
        if away_from is not None:
            axis, numbers = given.places(away_from, self.classes_)
            away = torch.tensor(numbers, device=z.device)
        own, target = self._own(z, axis, source), latent.merge(self.model_.mixture, axis.groups)
        return self._decode(latent.intensify(z, own, away, target, given.number("alpha", alpha)), form)

    def edit(
        self,
        X: Any,
        towards: Mapping | None = None,
        intensity: Mapping | None = None,
        style: float = 1.0,
        shift: tuple[float, float] = (0.0, 0.0),
    ) -> np.ndarray:
        """X with several edits at once (latent.edit), as {5: 0.3, 8: 0.2}: a part of the way to each class.

        `intensity` adds what marks a class (below 0: takes it away), `style` multiplies the place relative to the own
        class (0: its mean), `shift` moves along the two axes of the map (latent.plane). Values of attributes count as
        classes.
        """
        z, form = self._encode(X)
        moved = given.amounts(towards, self.classes_), given.amounts(intensity, self.classes_)
        pushed, along = latent.pushes(self._names, *moved), given.pair("shift", shift)
        return self._decode(latent.edit(z, self.model_.mixture, pushed, given.number("style", style), along), form)

    def save(self, path: str | Path) -> None:
        """As a run folder, which must not exist yet; the command line can use it too."""
        check_is_fitted(self)
        run = runs.create(Path(path), self.config_, self._about)
        runs.save_model(run, self.model_, self._steps)

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Self:
        """A saved estimator, or any run folder that the command line trained."""
        run = runs.read(Path(path))
        config = run.config
        # where its data are, and which rows had labels, stays with the run: a copy saved of this has neither
        about: dict = run.data | {"where": None, "rows": [runs.rows_to_train(run), run.data["rows"][1]]}
        usual = recipe(config.recipe, "arrays", run.shape, run.data["rows"][0], len(run.classes)).to_json()
        given = {name: value for name, value in config.to_json().items() if value != usual[name]}
        named = {name: given.pop(name) for name in NAMED if name in given}
        rest = {name: value for name, value in given.items() if name not in ELSEWHERE}
        self = cls(recipe=config.recipe, **named, settings=rest or None, device=device, random_state=config.seed)
        if len(run.shape) == 1:
            self.n_features_in_ = run.shape[0]
        if run.columns:
            self.feature_names_in_ = np.array(run.columns, dtype=object)
        classes = np.array([KINDS.get(about["labels"], str)(name) for name in run.classes])
        model = runs.load_mixture(run, choose_device(device))
        return self._adopt(model, config, classes, about, runs.steps_done(run))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def _config(self, data: Data) -> Config:
        """The recipe's settings for these data, with those given in their place."""
        settings = self.settings or {}
        for name in ELSEWHERE:
            if name in settings:
                raise InputError(f"settings: {name!r} has no place here; X, y, recipe and random_state decide it")
        if (rival := settings.get("model", "segma")) != "segma":
            raise InputError(
                f"settings: model = {rival!r}; rivals are for the command line: segma train DATA --model {rival}"
            )
        named = {name: getattr(self, name) for name in NAMED if getattr(self, name) is not None}
        config = recipe(self.recipe, data.name, data.shape, len(data.x_train), len(data.classes))
        return override(config, settings | named | {"seed": given.seed(self.random_state)})

    def _adopt(self, model: Model, config: Config, classes: np.ndarray, about: dict, steps: int) -> Self:
        # Tables are classified in float64: what the rows beside a row do to its rounding is then beyond notice.
        self.model_ = (model if model.is_image else model.double()).eval().requires_grad_(False)
        for weight in self.model_.parameters():  # views of one vector of all, with which each would be pickled
            weight.data = weight.data.clone()
        self.class_distances_ = latent.class_distances(model.mixture).cpu().numpy()
        self.class_shares_ = model.class_weights.cpu().numpy()
        self.config_, self.classes_ = config, classes
        self._about, self._steps, self._n_features_out = about, steps, config.latent_dim
        return self

    def _samples(self, X: Any, reset: bool = False) -> tuple[np.ndarray, dict]:
        """X as the model takes it, and the form in which it came; after fit its samples must have the same shape."""
        raw = np.asarray(X)
        x = validate_data(self, X, reset=reset) if raw.ndim < 3 else raw
        for name in ("n_features_in_", "feature_names_in_") if reset and raw.ndim > 2 else ():
            vars(self).pop(name, None)  # of a table that it was fitted on before
        as_given, x = x, images_or_table(x, "X", at_least=2 if reset else 1)
        if reset:
            note_doubtful(as_given, "X", getattr(self, "feature_names_in_", ()))
        fitted = x.shape[1:] if reset else tuple(self._about["shape"])
        if x.shape[1:] != fitted:
            alone = "; a single one is X[None]" if raw.shape in (fitted, fitted[:2]) else ""
            raise InputError(f"X: samples of shape {x.shape[1:]}, the model was fitted on {fitted}{alone}")
        kept = {"f": raw.dtype, "b": "float32"}  # black and white come back as 0..1
        form = {"ndim": raw.ndim, "dtype": str(kept.get(raw.dtype.kind, x.dtype))}
        return np.require(x, requirements=["C", "W"]), form  # what torch takes without a copy or a warning

    def _encode(self, X: Any) -> tuple[torch.Tensor, dict]:
        check_is_fitted(self)
        x, form = self._samples(X)
        return encode_rows(self.model_, x), form

    def _decode(self, z: torch.Tensor, form: dict) -> np.ndarray:
        x = decode_rows(self.model_, z)
        x = to_uint8(x) if form["dtype"] == "uint8" else x.astype(form["dtype"], copy=False)
        return x[..., 0] if form["ndim"] == 3 else x

    @property
    def _names(self) -> list[str]:
        return [str(label) for label in self.classes_.tolist()]

    def _places(self, labels: Any, n: int) -> tuple[attributes.Axis, torch.Tensor]:
        """Of each of n samples the place of its label among the classes, or among the values of an attribute."""
        axis, numbers = given.places(labels, self.classes_, n)
        return axis, torch.tensor(numbers, device=self.model_.means.device).expand(n)

    def _own(self, z: torch.Tensor, axis: attributes.Axis, source: Any) -> torch.Tensor:
        """The place of each sample on an axis: that of its given class, else the posterior's."""
        if source is None:
            return latent.nearest_class(z, self.model_.mixture, axis.groups)
        own, numbers = self._places(source, len(z))
        if own.values not in (axis.values, attributes.own(self._names).values):
            raise InputError(f"source {source}: allowed are {', '.join(axis.values)}")
        return numbers if own == axis else torch.tensor(axis.groups, device=z.device)[numbers]
