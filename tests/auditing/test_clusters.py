"""Clusters of embeddings as predicates of an audit."""

import numpy as np
import pyarrow as pa
import pytest

import shiftbench as sb
from shiftbench.auditing.clusters import k_means, nearest
from shiftbench.auditing.contexts import keep, load_contexts
from shiftbench.auditing.vocabulary import predicates_of
from shiftbench.core.arrays import child
from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.collection import Collection
from tests.auditing.test_error_control import bound

N = 1500


def blobs(seed, bad=-1):
    """Items in six blobs that no column tells; sofas are frequent in blob 2. Errors are more frequent in blob `bad`."""
    rng = np.random.default_rng(seed)
    blob = rng.integers(0, 6, N)
    x = np.eye(6)[blob] @ (8 * np.random.default_rng(1).normal(size=(6, 12))) + rng.normal(size=(N, 12))
    sofa = rng.random(N) < np.where(blob == 2, 0.8, 0.1)
    wrong = rng.random(N) < 0.1 + 0.35 * (blob == bad)
    ids = [f"i{number}" for number in range(N)]
    data = {"id": ids, "label": rng.choice(["cat", "dog"], N), "sofa": np.where(sofa, "sofa", "none"),
            "light": rng.choice(["day", "night"], N)}
    answers = np.where(wrong, np.where(data["label"] == "cat", "dog", "cat"), data["label"])
    return data, {"id": ids, "prediction": answers}, {"id": ids, "embedding": x}, blob


def test_a_planted_cluster_is_found_and_named_by_what_is_frequent_in_it(tmp_path):
    """Errors of blob 2, of which no column knows, are one finding: a cluster named by its sofas. It is not kept."""
    data, predictions, features, blob = blobs(0, bad=2)
    audit = sb.audit(predictions, data, features=features, seed=2)
    [finding] = [finding for finding in audit if finding.parent < 0 and finding.members[0].kind == "cluster"]
    assert "sofa is sofa" in finding.context
    assert finding.context.startswith("in cluster ")
    assert abs(finding.n_all - (blob == 2).sum()) < 0.1 * finding.n_all
    assert finding.low < 0.45 < finding.high
    keep(audit, tmp_path / "contexts.toml")
    assert all(member.kind != "cluster" for context in load_contexts(tmp_path / "contexts.toml")[1]
               for member in context.members)


def test_permuted_errors_report_no_more_clusters_than_the_rate_allows():
    """Centres and names are made on the exploring part, so that clusters keep the rate of false findings."""
    draws = 20
    assert sum(len(sb.audit(predictions, data, features=features, seed=seed)) > 0
               for seed in range(draws) for data, predictions, features, _ in [blobs(seed)]) / draws <= bound(draws)


def test_features_of_confirming_items_do_not_move_clusters():
    """With other features for these, the exploring items are in the same clusters, of the same names."""
    data, _, features, _ = blobs(3)
    items = Collection("blobs", np.asarray(data["id"]), {"sofa": data["sofa"]})
    explore = np.arange(N) % 2 == 0
    moved = np.where(explore[:, None], features["embedding"], 0.0)
    one, other = (predicates_of(items, loss=np.zeros(N), explore=explore, features=x)
                  for x in (features["embedding"], moved))
    clusters = {predicate: one.mask(number)[explore] for number, predicate in enumerate(one.list)
                if predicate.kind == "cluster"}
    again = {predicate: other.mask(number)[explore] for number, predicate in enumerate(other.list)}
    assert len(clusters) > 6
    for predicate in clusters.keys() & again.keys():  # some may hold all items of the other part now, and be too large
        assert (clusters[predicate] == again[predicate]).all()
    assert len(clusters.keys() & again.keys()) > 6


def test_k_means_finds_blobs_and_stands_equal_points():
    """Each of six blobs has its centre; points that are all equal make no error."""
    _, _, features, blob = blobs(4)
    near = nearest(features["embedding"], k_means(features["embedding"], 6, child(0, "k-means")))
    assert len({(one, other) for one, other in zip(blob.tolist(), near.tolist(), strict=True)}) == 6
    assert nearest(np.zeros((9, 2)), k_means(np.zeros((9, 2)), 3, child(0, "k-means"))).tolist() == [0] * 9


def test_features_come_from_tables_and_from_what_embed_kept(tmp_path):
    """Columns of numbers, lists, and a folder below the collection; an item without features is in no cluster."""
    data, predictions, features, _ = blobs(0, bad=2)
    x = features["embedding"]
    whole = sb.audit(predictions, data, features=features)
    columns = sb.audit(predictions, data, features={"id": data["id"], **{f"x{k}": x[:, k] for k in range(12)}})
    assert columns.sentences() == whole.sentences()
    part = sb.audit(predictions, data, features={"id": data["id"][:-5], "embedding": x[:-5]})
    assert "5 items have no features and are in no cluster." in part.card["notes"]
    Collection("blobs", np.asarray(data["id"]), {name: np.asarray(data[name]) for name in ("label", "sofa", "light")}
               ).save(tmp_path / "blobs")
    kept = tmp_path / "blobs" / "features" / "net@32-0"
    kept.mkdir(parents=True)
    np.save(kept / "features.npy", x.astype(np.float32))
    np.save(kept / "present.npy", np.ones(N, np.bool_))
    folder = sb.audit(predictions, tmp_path / "blobs", features=tmp_path / "blobs" / "features")
    assert [finding.n for finding in folder] == [finding.n for finding in whole]
    np.save(kept / "present.npy", np.ones(3, np.bool_))
    with pytest.raises(ShiftBenchError, match="holds no features of the 1,500 items"):
        sb.audit(predictions, tmp_path / "blobs", features=kept)


@pytest.mark.parametrize(("features", "message"), [
    ({"id": ["x"], "a": [1.0]}, "has no features of the items"),
    ({"id": ["i0", "i1"]}, "has no column of numbers"),
    (pa.table({"id": ["i0", "i1"], "a": [[1.0], [1.0, 2.0]]}), "one column of lists of equally many"),
    ({"id": ["i0"], "a": ["red"]}, "'a'"), ("nowhere.csv", "nowhere.csv")])
def test_features_that_are_none_are_said(features, message):
    """One line for each."""
    data, predictions, _, _ = blobs(0)
    with pytest.raises(ShiftBenchError, match=message):
        sb.audit(predictions, data, features=features)
