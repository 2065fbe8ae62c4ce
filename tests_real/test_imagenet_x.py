"""ImageNet-X (Idrissi et al., 2023): what people say of 46,110 validation images, and where two models fail on them.

The annotations come from the package imagenet-x, for these tests alone: their licence is CC BY-NC. The predictions of a
ResNet-50 and a ViT lie beside the checkout; without them the tests are skipped.
"""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shiftbench as sb
from shiftbench.auditing.contrasts import compare
from tests_real.packages import IMAGENET_X, read_bytes

PREDICTIONS = Path(__file__).parents[2] / "shared" / "data" / "imagenetx"
FACTORS = ("pose", "background", "pattern", "color", "smaller", "shape", "partial_view", "subcategory", "texture",
           "larger", "darker", "object_blocking", "person_blocking", "style", "brighter", "multiple_objects")
PUBLISHED = {
    "ResNet50": (0.694739, 1.1417, 0.771442, 1.18883, 1.49743, 1.74423, 1.13236, 2.10548, 2.39386, 1.31592, 1.71502,
                 1.92327, 2.17128, 1.92798, 1.16639, 1.97389),
    "ViT": (0.74067, 1.09097, 0.862456, 1.15164, 1.64401, 1.53992, 0.917235, 2.01538, 2.04465, 1.29087, 1.83403,
            1.98596, 1.93631, 1.60108, 0.782348)}
"""Error where a factor is the top one, over the error of all, as the authors' README prints it; ViT's last is not."""

pytestmark = [pytest.mark.real, pytest.mark.skipif(not PREDICTIONS.is_dir(), reason="predictions are not there")]


def annotations(kind: str, cache: Path) -> pd.DataFrame:
    """The sixteen factors of every image that is no prototype of its class, and its label."""
    def read(name: str) -> io.BytesIO:
        return io.BytesIO(read_bytes(IMAGENET_X, f"imagenet_x/annotations/{name}", cache))

    table = pd.read_json(read(f"imagenet_x_val_{kind}_factor.jsonl"), lines=True)
    prototypes = pd.read_csv(read("prototypical_paths.csv"))["file_name"]
    table = table[~table["file_name"].isin(prototypes)].drop(columns=["justification", "one_word"])
    return table.rename(columns={"file_name": "item", "class": "label"})


def predictions(model: str, items: "pd.Series[str]") -> pd.DataFrame:
    table = pd.read_csv(PREDICTIONS / f"{model}.csv.gz").rename(
        columns={"file_name": "item", "predicted_class": "prediction"})
    return table.loc[table["item"].isin(items), ["item", "prediction"]]


@pytest.mark.parametrize(("model", "same_as_1"), [
    ("ResNet50", ["partial_view", "larger", "brighter"]),
    ("ViT", ["partial_view", "larger", "style", "brighter", "multiple_objects"])])
def test_the_published_error_ratios_come_out(model, same_as_1, cache, tell):
    """To the printed digits; with intervals for sixteen questions at once, some cannot be told apart from 1."""
    table = annotations("top", cache)
    answers = predictions(model, table["item"]).set_index("item").loc[table["item"], "prediction"].to_numpy()
    error = (answers != table["label"].to_numpy()).astype(np.float64)
    assert len(error) == 46_110
    inside = [table[factor].to_numpy() == 1 for factor in FACTORS]
    ratios = [float(f"{error[mask].mean() / error.mean():.6g}") for mask in inside]
    assert tuple(ratios[:len(PUBLISHED[model])]) == PUBLISHED[model]
    intervals = [compare(error, mask.astype(np.float64), (~mask).astype(np.float64), 0.05 / len(FACTORS)).ratio
                 for mask in inside]
    found = [factor for factor, ratio in zip(FACTORS, intervals, strict=True) if ratio.low <= 1 <= ratio.high]
    assert found == same_as_1
    tell(f"ImageNet-X, {model}: {len(PUBLISHED[model])} published error ratios agree to six digits; {len(found)} of 16 "
         f"cannot be told apart from 1: {', '.join(found)}")


def test_an_audit_finds_what_is_annotated(cache, tell):
    """Contexts of up to two factors: subcategory and texture are the worst; the two models differ most there, too."""
    table = annotations("multi", cache)
    options = {"depth": 2, "exclude": ["label", "prediction"]}
    audit = sb.audit(predictions("ResNet50", table["item"]), table, **options)
    wide = [finding for finding in audit.findings if finding.parent < 0]
    assert {"subcategory", "texture", "shape", "multiple_objects"} <= {
        one.column for finding in wide if len(finding.members) == 1 for one in finding.members if one.value == "1"}
    assert all(finding.difference_low > 0 for finding in audit.findings)
    changes = sb.audit(predictions("ResNet50", table["item"]), table,
                       against=predictions("ViT", table["item"]), **options)
    assert changes.findings[0].members[0].column == "subcategory"
    tell(f"ImageNet-X, audit of ResNet-50: {audit.sentences()[0]}")
    tell(f"ImageNet-X, ResNet-50 against ViT: {changes.sentences()[0]}")
