"""WILDS' data sets of text: CivilComments, Amazon and Py150."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Ints, Values, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import read_json, read_text
from shiftbench.core.tables import decimal, filled, long_texts, read_table, strings, whole, within
from shiftbench.data.collection import Collection, Texts
from shiftbench.readers.wilds.metadata import needed, one_of

IDENTITIES = ("male", "female", "LGBTQ", "christian", "muslim", "other_religions", "black", "white")
OTHER_MARKS = ("identity_any", "severe_toxicity", "obscene", "threat", "insult", "identity_attack", "sexual_explicit")
REVIEW = ("reviewerID", "asin", "category", "reviewYear", "overall", "reviewText")
FIVE = ("train", "val", "id_val", "test", "id_test")
THREE = ("train", "val", "test")
UNLABELLED = {11: "val_unlabeled", 12: "test_unlabeled", 13: "extra_unlabeled"}
"""Numbers in Amazon's user.csv since WILDS 2."""
PY150 = {"train": "train", "IDval": "id_val", "OODval": "val", "IDtest": "id_test", "OODtest": "test"}
TOKENS = {"class": 0, "method": 1, "punctuation": 2, "keyword": 3, "builtin": 4, "literal": 5, "other_identifier": 6,
          "masked": -100}


def civilcomments(folder: Path, images: bool = True) -> Collection:
    """Comments on news: `label` is toxic or civil, and eight identities (0 or 1) say whom a comment mentions.

    A score of at least 0.5 is a 1. A comment may mention several identities, so groups overlap. The id is the row.
    A comment that is `NA` or empty stays a text; the package turns it into the number nan.
    """
    (path,) = needed(folder, "all_data_with_identities.csv")
    marks = (*IDENTITIES, *OTHER_MARKS)
    columns = ("toxicity", "comment_text", "split", *marks)
    table = read_table(path, columns, text=("comment_text", "split"), every=False)
    filled(path, table, ("toxicity", "split"), blank=True)
    split = strings(path, table, "split")
    one_of(path, "split", "split", split, THREE)
    y = (decimal(path, table, "toxicity") >= 0.5).astype(np.int64)
    # A missing score compares false, which is 0: nobody was asked about this comment.
    flags: dict[str, Values] = {mark: (decimal(path, table, mark) >= 0.5).astype(np.int64) for mark in marks}
    return Collection(
        name="civilcomments",
        items=np.arange(len(y)).astype(np.str_),
        factors={"label": np.where(y == 1, "toxic", "civil"), "y": y, **flags, "split": split},
        texts=_texts(path, table, "comment_text"))


def unlabelled_civilcomments(folder: Path, images: bool) -> Collection:
    """unlabeled_data_with_identities.csv, all of it `extra_unlabeled`; their identities are not annotated."""
    (path,) = needed(folder, "unlabeled_data_with_identities.csv")
    table = read_table(path, ("comment_text",), text=("comment_text",), every=False)
    comments = long_texts(path, table, "comment_text", gap="")
    rows = np.flatnonzero(comments != "")
    return Collection("civilcomments", np.arange(len(comments)).astype(np.str_), {
        "split": np.full(len(comments), "extra_unlabeled")}, texts=Texts(rows, comments[rows]))


def amazon(folder: Path, images: bool = True, scheme: str = "user", *, unlabelled: bool = False) -> Collection:
    """Product reviews: `label` is 1 to 5 stars, the domain is `user`. `y` is WILDS' number, 0 to 4.

    splits/user.csv says of every row of reviews.csv where it belongs; rows marked -1 are not part of the data set
    and are not items. The id is the row of reviews.csv. Another `scheme` is another file of splits/ with other items:
    time, category_subpopulation, books_generalization, … user.csv also numbers WILDS 2's reviews without labels
    (`UNLABELLED`), which are items only with `unlabelled`, and then the only ones.
    """
    schemes = sorted(file.stem for file in (folder / "splits").glob("*.csv") if amazon_splits(file.stem))
    if scheme != "user" and scheme not in schemes:
        raise unknown("split scheme", scheme, schemes, str(folder / "splits"))
    path, split_file = needed(folder, "reviews.csv", f"splits/{scheme}.csv")
    splits = np.asarray(amazon_splits(scheme))
    codes = whole(split_file, read_table(split_file, ("split",)), "split")
    is_unlabelled = np.isin(codes, list(UNLABELLED)) & (scheme == "user")
    within(split_file, "split", np.where(is_unlabelled, -1, codes), len(splits) - 1, -1)
    names = np.asarray([UNLABELLED.get(code, "") if unlabelled else splits[code] if 0 <= code < len(splits) else ""
                        for code in range(max(UNLABELLED) + 1)])
    table = read_table(path, REVIEW, text=("reviewerID", "asin", "category", "reviewText"), every=False)
    if len(codes) != table.num_rows:
        raise ShiftBenchError(f"{split_file}: has {len(codes)} rows, but {path.name} has {table.num_rows}. Both must "
                              "be of one version.")
    rows = np.flatnonzero(is_unlabelled if unlabelled else (codes >= 0) & ~is_unlabelled)
    table = table.take(pa.array(rows))
    filled(path, table, ("reviewerID", "category", "reviewYear", "overall"), blank=True)
    stars = whole(path, table, "overall")
    within(path, "overall", stars, 5, 1)
    return Collection(
        name=amazon_name(scheme),
        items=rows.astype(np.str_),
        factors={"label": stars, "y": stars - 1, "user": strings(path, table, "reviewerID"),
                 "product": strings(path, table, "asin", gap=""), "category": strings(path, table, "category"),
                 "year": whole(path, table, "reviewYear"), "split": names[codes[rows]]},
        texts=_texts(path, table, "reviewText"))


def unlabelled_amazon(folder: Path, images: bool) -> Collection:
    """Rows of the labelled data set that splits/user.csv numbers 11 (val), 12 (test) and 13 (extra)."""
    return amazon(folder, images, unlabelled=True)


def amazon_name(scheme: str) -> str:
    """The name of the collection of one of Amazon's split files."""
    return "amazon" if scheme == "user" else f"amazon-{scheme}"


def amazon_splits(scheme: str) -> tuple[str, ...]:
    """The splits that the numbers of one of Amazon's split files stand for, in their order; none for other files."""
    if scheme in ("user", "time") or scheme.endswith("_generalization"):
        return FIVE
    return THREE if scheme == "category_subpopulation" or scheme.endswith("_baseline") else ()


def py150(root: Path, images: bool = True) -> Collection:
    """Python code as tokens: the label of a token is the next one; the domain is `repo`.

    Every item has two texts, numbers separated by spaces: its tokens, and the kind of each token (`TOKENS`); the
    function `tokens` returns both as arrays.
    """
    folder = "metadata/repo_file_names"
    needed(root, f"{folder}/repo_ids.csv", *(f"{folder}/{stem}.txt" for stem in PY150), *(
        f"processed/{stem}_input{suffix}.json" for stem in PY150 for suffix in ("", "_tok_type")))
    ids = root / folder / "repo_ids.csv"
    table = read_table(ids, ("id", "repo_name"), text=("repo_name",))
    repo_id, repo_name = whole(ids, table, "id"), strings(ids, table, "repo_name")
    items: list[str] = []
    repos: list[str] = []
    splits: list[str] = []
    texts: list[str] = []
    for stem, split in PY150.items():
        lines = read_text(root / folder / f"{stem}.txt").removesuffix("\n").split("\n")
        files = [line.strip() for line in lines]  # a name may hold what str.splitlines takes for a line break
        codes, kinds = (_numbers(root / f"processed/{stem}_input{suffix}.json") for suffix in ("", "_tok_type"))
        if not len(codes) == len(kinds) == len(files):
            raise ShiftBenchError(f"{root}: of {stem}, {len(codes)} items have tokens, {len(kinds)} have kinds and "
                                  f"{len(files)} a file name. The three numbers must agree.")
        for row, (code, kind) in enumerate(zip(codes, kinds, strict=True)):
            if len(code) != len(kind):
                raise ShiftBenchError(f"{root}: {stem} item {row} has {len(code)} tokens but {len(kind)} kinds.")
            texts += [" ".join(map(str, code)), " ".join(map(str, kind))]
        items += [f"{stem}/{row}" for row in range(len(files))]
        repos += ["/".join(file.split("/")[:2]) for file in files]
        splits += [split] * len(files)
    repo = np.asarray(repos, np.str_)
    repo_name, last = np.unique(repo_name[::-1], return_index=True)  # of a name that occurs twice, the last
    position = positions(repo, repo_name)
    for row in np.flatnonzero(position < 0)[:1]:
        raise ShiftBenchError(f"{ids}: has no repository '{repo[row]}', which item {items[row]} comes from.")
    return Collection(
        name="py150",
        items=np.asarray(items, np.str_),
        factors={"repo": repo, "repo_id": repo_id[::-1][last][position], "split": np.asarray(splits, np.str_)},
        texts=Texts(np.repeat(np.arange(len(items)), 2), np.asarray(texts, np.object_)))


def tokens(collection: Collection) -> tuple[Ints, Ints]:
    """Tokens and their kinds of a Py150 collection, items × places; masked kinds are -100."""
    code, kind = ([np.array(line.split(), np.int64) for line in collection.texts.text[start::2]] for start in (0, 1))
    return np.stack(code), np.stack(kind)


def _texts(path: Path, table: pa.Table, column: str) -> Texts:
    """One text per item; an item whose text is empty has the empty one."""
    return Texts(np.arange(len(table)), long_texts(path, table, column, gap=""))


def _numbers(path: Path) -> list[list[int]]:
    lists = read_json(path)
    if not isinstance(lists, list) or not all(isinstance(numbers, list) for numbers in lists):
        raise ShiftBenchError(f"{path}: is not a list of lists of whole numbers.")
    for row, numbers in enumerate(lists):
        if not all(type(number) is int for number in numbers):
            raise ShiftBenchError(f"{path}: item {row} has a token that is not a whole number.")
    return lists
