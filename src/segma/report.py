"""What a training has and what was measured, for a person to read."""

from collections.abc import Sequence

from segma.data.arrays import Data
from segma.data.sources import counts

ALIKE = 0.9  # reconstruction errors above this share of the mean's: the decoder tells nothing apart
UNFILLED = 2.5  # log d^2 that far above that of codes which fill the mixture: then samples were off (experiments.md)
UNFILLED_NOTE = (
    "  the codes do not fill their components, so new samples may be off: train longer (epochs), or with a larger "
    "learning_rate or alpha"
)
HOLD_OUT = "--set holdout=0.2 would keep some labelled ones"
DOUBT, DOUBTFUL = 0.1, ", too large to trust its scores"  # of a judge, from that error of its own on
NAMED = 20  # classes whose labels are counted in a line
FIDS = {"fid": "FID", "interpolation_fid": "interpolation FID", "reconstruction_fid": "reconstruction FID"}


def in_hand(few: Data) -> str:
    """What a training has, in a line: rows, and how many of each class are labelled."""
    found = counts(few.y_train, few)
    named = [f"{name}: {count}" for name, count in found["classes"].items()]
    shown = ", ".join(named[:NAMED]) + (f", and {len(named) - NAMED} more classes" if len(named) > NAMED else "")
    return f"{found['n']:,} samples, {found['n'] - found['unlabelled']:,} of them labelled ({shown})"


def as_text(results: dict) -> str:
    """The results for a person to read."""
    return "\n".join([*_confusion(results), *_scores(results), error(results)])


def error(results: dict) -> str:
    """The error and what it is of, in a line."""
    split = "test" if "test_error" in results else "validation"
    wrong, protocol = results[f"{split}_error"], results["protocol"]
    if results["confusion"] is None:
        return f"{split} error: no classes: trained without labels"
    shown = f"{wrong:.2%}" if wrong is not None else f"no labelled rows to measure on; {HOLD_OUT}"
    if protocol["split"].startswith("train"):
        shown = f"no test split, all else is of training rows; {HOLD_OUT}"
    done, last = protocol["steps"], protocol.get("steps_in_all", 0)  # of runs measured before it was there
    unfinished = f"; unfinished, at step {done} of {last}" if done < last else ""
    return f"{split} error: {shown}  ({protocol['labels']} labels, {protocol['split']}{unfinished})"


def _confusion(results: dict) -> list[str]:
    names, lines = results["classes"], []
    width = max(len(name) for name in names)
    if results["confusion"] is not None and any(map(any, results["confusion"])):
        lines.append("rows: true class; columns: the class it was taken for")
        heads = names
        if width > 5:  # too long for a column: they are numbered
            heads = [f"({i})" for i in range(1, len(names) + 1)]
            names = [f"{name} {head}" for name, head in zip(names, heads, strict=True)]
            width = max(len(name) for name in names)
        lines.append(f"  {'':{width}}  " + " ".join(f"{head:>5}" for head in heads))
        for name, row in zip(names, results["confusion"], strict=True):
            lines.append(f"  {name:>{width}}  " + " ".join(f"{count:5d}" for count in row))
    if results["reconstruction_error"] is not None:
        share = results.get("reconstruction_share")  # of runs measured before it was
        of = "" if share is None else f", {share:.0%} of the mean's"
        lines.append(f"reconstruction error: {results['reconstruction_error']:.4g} (squared, per sample{of})")
        if share is not None and share > ALIKE:
            said = "hardly better" if share < 1 else "no better"
            lines.append(f"  {said} than one answer for all: train longer; of pictures, start_at_mean=true may help")
    if results["log_distance"] is not None:
        lines += distance(results["log_distance"], results.get("log_distance_filled"))
    if "class_shares" in results:
        lines.append(learned_shares(results["classes"], results["class_shares"]))
    return lines


def distance(found: float, filled: float | None) -> list[str]:
    """How well codes fill the mixture, and what that means where they do not; runs measured before have no `filled`."""
    if filled is None:
        return [f"log d^2: {found:.3f}"]
    line = f"log d^2: {found:.3f} (of codes that fill their components: {filled:.3f})"
    return [line] if found - filled < UNFILLED else [line, UNFILLED_NOTE]


def learned_shares(classes: Sequence[str], shares: Sequence[float]) -> str:
    shown = (f"{name} {share:.1%}" for name, share in zip(classes, shares, strict=True))
    return "shares of the classes, as learned: " + "  ".join(shown)


def _scores(results: dict) -> list[str]:
    lines = []
    for name, title in FIDS.items():
        if name in results:
            found = results[name]
            lines.append(f"{title}: {found['test']:.2f} against test, {found['train']:.2f} against train{_few(found)}")
    if "interpolation_fid_at" in results:
        found = results["interpolation_fid_at"]
        shown = (f"{value:.2f} at t = {t:g}" for t, value in zip(found["t"], found["test"], strict=True))
        lines.append(f"FID of interpolations, against test: {', '.join(shown)}{_few(found)}")
    if "kid" in results:
        found = results["kid"]
        shown = (f"{found[s]['mean']:.4f} +- {found[s]['standard_error']:.4f} against {s}" for s in ("test", "train"))
        lines.append(f"KID: {', '.join(shown)}{_few(found)}")
    if "per_class_fid" in results:
        values = {name: value for name, value in results["per_class_fid"]["test"].items() if value is not None}
        lines.append("FID by class, against test: " + "  ".join(f"{name} {v:.1f}" for name, v in values.items()))
    if "editing" in results:
        moved, pushed = results["editing"]["transfer"], results["editing"]["intensity"]
        own = results["editing"]["protocol"]["judge_error"]
        judge = "a judge" if own is None else f"a judge (its own error: {own:.1%}{DOUBTFUL if own > DOUBT else ''})"
        lines.append(
            f"transfer: {moved['reached']:.1%} taken for the target by {judge}, {moved['steady']:.1%} get there "
            f"steadily, style kept {moved['style_kept']:.2f}, image kept {moved['image_kept']:.2f}"
        )
        lines.append(f"intensity: within the data up to alpha = {pushed['limit']:g}")
    return lines


def _few(found: dict) -> str:
    protocol = found["protocol"]
    return f"  ({protocol['samples']} samples: too few to compare)" if protocol["few"] else ""
