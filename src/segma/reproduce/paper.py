"""What the paper reports: its tables, and what stands in them. Numbers are for mnist, svhn and celeba."""

from typing import NamedTuple


class Row(NamedTuple):
    """A line of a table: a model, the recipe and the settings that make it here, and the data it is run on."""

    title: str
    settings: dict[str, str]
    recipe: str = "paper"
    data: tuple[str, ...] = ()  # none: all


ROWS: dict[str, Row] = {
    "cwae": Row("CWAE", {"model": "cwae"}),
    "unsupervised": Row(
        "SeGMA, unsupervised", {"beta": "0", "labelled_share": "0", "clip_norm": "0", "clip_value": "0"}
    ),
    # the paper has none of CelebA; data of a user's own may be a table, which it cannot read
    "triple-gan": Row("Triple-GAN", {"model": "triple-gan"}, data=("digits", "mnist", "svhn")),
    "m1m2": Row("M1+M2", {"model": "m1m2"}),
    "adgm": Row("ADGM", {"model": "adgm"}),
    "segma": Row("SeGMA", {}),
    # The paper describes its convolutional net for CelebA alone (appendix: 4x4 filters, stride 2). This one has such
    # filters where the authors' nearest stored net halves, which has 3x3: 32 at stride 1, 32, 64, 64 at 2; dense 256.
    "segma-conv": Row(
        "SeGMA, convolutional", {"network": "strided", "filters": "32x64x64", "hidden": "256"}, data=("svhn",)
    ),
    "segma-best": Row("SeGMA, this project's recipe", {}, "best"),
}


class Table(NamedTuple):
    """A table of the paper: the score it is about, as `segma evaluate` calls it, and the paper's numbers."""

    title: str
    score: str
    form: str
    numbers: dict[str, dict[str, float]]


TABLES: dict[str, Table] = {
    "table1": Table(
        "FID of samples (lower is better)",
        "fid",
        "{:.2f}",
        {
            "cwae": {"mnist": 20.76, "svhn": 49.30, "celeba": 51.94},
            "unsupervised": {"mnist": 17.79, "svhn": 61.11, "celeba": 51.13},
            "triple-gan": {"mnist": 10.46, "svhn": 45.40},
            "m1m2": {"mnist": 40.50, "svhn": 142.11, "celeba": 70.96},
            "adgm": {"mnist": 14.50, "svhn": 55.54, "celeba": 51.96},
            "segma": {"mnist": 12.51, "svhn": 63.80, "celeba": 50.54},
            "segma-conv": {"svhn": 50.10},
            "segma-best": {},
        },
    ),
    "table2": Table(
        "Test error (lower is better)",
        "error",
        "{:.2%}",
        {
            "triple-gan": {"mnist": 0.008, "svhn": 0.058},
            "m1m2": {"mnist": 0.170, "svhn": 0.657, "celeba": 0.445},
            "adgm": {"mnist": 0.041, "svhn": 0.412, "celeba": 0.417},
            "segma": {"mnist": 0.127, "svhn": 0.328, "celeba": 0.246},
            "segma-conv": {"svhn": 0.224},
            "segma-best": {},
        },
    ),
    "table3": Table(
        "FID of interpolations (lower is better)",
        "interpolation_fid",
        "{:.2f}",
        {
            "m1m2": {"mnist": 56.38, "svhn": 176.89, "celeba": 88.24},
            "adgm": {"mnist": 21.75, "svhn": 76.66, "celeba": 63.60},
            "segma": {"mnist": 13.40, "svhn": 63.47, "celeba": 48.14},
            "segma-conv": {"svhn": 50.01},
            "segma-best": {},
        },
    ),
}


def rows(names: dict[str, dict[str, float]], data: str) -> list[str]:
    """The rows of a table for a data set; one of the user's own has neither Triple-GAN nor the convolutional SeGMA."""
    return [name for name in names if not ROWS[name].data or data in ROWS[name].data]
