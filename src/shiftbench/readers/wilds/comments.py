"""WILDS' data sets of text: CivilComments, Amazon and Py150."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from shiftbench.core.arrays import Ints, Values, positions
from shiftbench.core.errors import ShiftBenchError, unknown
from shiftbench.core.files import read_json, read_text
from shiftbench.core.tables import decimal, filled, long_texts, read_table, strings, whole, within
from shiftbench.data.collection import Collection
from shiftbench.data.tags import Texts
from shiftbench.readers.wilds.metadata import needed

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
    """Comments on news: `label` is toxic or civil, and eight identities (0 or 1) say of whom a comment speaks.

    A score of at least 0.5 is a 1. A comment may name several identities, so groups overlap. The id is the row.
    A comment that says only `NA` or nothing stays one; the package makes the number nan of it.
    """
    (path,) = needed(folder, "all_data_with_identities.csv")
    marks = (*IDENTITIES, *OTHER_MARKS)
    columns = ("toxicity", "comment_text", "split", *marks)
    table = read_table(path, columns, text=("comment_text", "split"), every=False)
    filled(path, table, ("toxicity", "split"), blank=True)
    split = strings(path, table, "split")
    for row in np.flatnonzero(~np.isin(split, ("train", "val", "test")))[:1]:
        raise unknown("split", str(split[row]), ("train", "val", "test"), f"{path}: row {row}")
    y = (decimal(path, table, "toxicity") >= 0.5).astype(np.int64)
    # A missing score compares false, which is 0: the comment was not asked about.
    named: dict[str, Values] = {mark: (decimal(path, table, mark) >= 0.5).astype(np.int64) for mark in marks}
    return Collection(
        name="civilcomments",
        items=np.arange(len(y)).astype(np.str_),
        factors={"label": np.where(y == 1, "toxic", "civil"), "y": y, **named, "split": split},
        texts=_texts(path, table, "comment_text"))


def amazon(folder: Path, images: bool = True, scheme: str = "user", *, unlabelled: bool = False) -> Collection:
    """Product reviews: `label` is 1 to 5 stars, the domain is `user`. `y` is WILDS' number, 0 to 4.

    splits/user.csv says of every row of reviews.csv where it belongs; rows marked -1 are not part of the data set
    and no items. The id is the row of reviews.csv. Another `scheme` is another file of splits/, and so other items:
    time, category_subpopulation, books_generalization, … user.csv also numbers WILDS 2's reviews without labels
    (`UNLABELLED`), which are items only with `unlabelled`, and then the only ones.
    """
    known = sorted(file.stem for file in (folder / "splits").glob("*.csv") if amazon_splits(file.stem))
    if scheme != "user" and scheme not in known:
        raise unknown("split scheme", scheme, known, str(folder / "splits"))
    path, dealt = needed(folder, "reviews.csv", f"splits/{scheme}.csv")
    splits = np.asarray(amazon_splits(scheme))
    codes = whole(dealt, read_table(dealt, ("split",)), "split")
    hidden = np.isin(codes, list(UNLABELLED)) & (scheme == "user")
    within(dealt, "split", np.where(hidden, -1, codes), len(splits) - 1, -1)
    words = np.asarray([UNLABELLED.get(code, "") if unlabelled else splits[code] if 0 <= code < len(splits) else ""
                        for code in range(max(UNLABELLED) + 1)])
    table = read_table(path, REVIEW, text=("reviewerID", "asin", "category", "reviewText"), every=False)
    if len(codes) != table.num_rows:
        raise ShiftBenchError(f"{dealt}: has {len(codes)} rows, but {path.name} has {table.num_rows}. Both must be of "
                              "one version.")
    rows = np.flatnonzero(hidden if unlabelled else (codes >= 0) & ~hidden)
    table = table.take(pa.array(rows))
    filled(path, table, ("reviewerID", "category", "reviewYear", "overall"), blank=True)
    stars = whole(path, table, "overall")
    within(path, "overall", stars, 5, 1)
    return Collection(
        name=amazon_name(scheme),
        items=rows.astype(np.str_),
        factors={"label": stars, "y": stars - 1, "user": strings(path, table, "reviewerID"),
                 "product": strings(path, table, "asin", gap=""), "category": strings(path, table, "category"),
                 "year": whole(path, table, "reviewYear"), "split": words[codes[rows]]},
        texts=_texts(path, table, "reviewText"))


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

    Every item has two texts, numbers with spaces between: its tokens, and what kind each of them is (`TOKENS`); the
    function `tokens` gives both as arrays.
    """
    folder = "metadata/repo_file_names"
    needed(root, f"{folder}/repo_ids.csv", *(f"{folder}/{part}.txt" for part in PY150), *(
        f"processed/{part}_input{kind}.json" for part in PY150 for kind in ("", "_tok_type")))
    ids = root / folder / "repo_ids.csv"
    table = read_table(ids, ("id", "repo_name"), text=("repo_name",))
    repo_id, repo_name = whole(ids, table, "id"), strings(ids, table, "repo_name")
    items: list[str] = []
    repos: list[str] = []
    words: list[str] = []
    lines: list[str] = []
    for part, word in PY150.items():
        listed = read_text(root / folder / f"{part}.txt").removesuffix("\n").split("\n")
        files = [line.strip() for line in listed]  # a name may hold what str.splitlines takes for a line's end
        codes, kinds = (_numbers(root / f"processed/{part}_input{which}.json") for which in ("", "_tok_type"))
        if not len(codes) == len(kinds) == len(files):
            raise ShiftBenchError(f"{root}: of {part}, {len(codes)} items have tokens, {len(kinds)} have kinds and "
                                  f"{len(files)} a file name. They must be as many.")
        for row, (code, kind) in enumerate(zip(codes, kinds, strict=True)):
            if len(code) != len(kind):
                raise ShiftBenchError(f"{root}: {part} item {row} has {len(code)} tokens but {len(kind)} kinds.")
            lines += [" ".join(map(str, code)), " ".join(map(str, kind))]
        items += [f"{part}/{row}" for row in range(len(files))]
        repos += ["/".join(file.split("/")[:2]) for file in files]
        words += [word] * len(files)
    repo = np.asarray(repos, np.str_)
    repo_name, last = np.unique(repo_name[::-1], return_index=True)  # of a name that comes twice, the last
    position = positions(repo, repo_name)
    for row in np.flatnonzero(position < 0)[:1]:
        raise ShiftBenchError(f"{ids}: has no repository '{repo[row]}', which item {items[row]} comes from.")
    return Collection(
        name="py150",
        items=np.asarray(items, np.str_),
        factors={"repo": repo, "repo_id": repo_id[::-1][last][position], "split": np.asarray(words, np.str_)},
        texts=Texts(np.repeat(np.arange(len(items)), 2), np.asarray(lines, np.object_)))


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
