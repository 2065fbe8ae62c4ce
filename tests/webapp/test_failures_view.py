"""The failures view says what an audit says, and of sealed items nothing: its numbers are those of the verbs."""

import json
import shlex
import shutil
from dataclasses import replace
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

import shiftbench as sb
from shiftbench.auditing.findings import Audit
from shiftbench.auditing.join import join
from shiftbench.auditing.model_outputs import loss_named
from shiftbench.auditing.predicates import Predicate
from shiftbench.cli import app
from shiftbench.core.errors import ShiftBenchError
from shiftbench.core.files import read_json, write_json
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.collection import Collection
from shiftbench.webapp.failures_view import confirm, confirmation_facts, context, failures, findings, points
from shiftbench.webapp.looks import Books, Confirmation, sealed
from shiftbench.webapp.outcomes import find_outcomes, principal
from shiftbench.webapp.shelf import Shelf
from shiftbench.webapp.studio import Query, Studio
from tests.webapp.conftest import TOKEN, Server, make_run


@pytest.fixture
def desk(world):
    """A studio whose books are in memory."""
    studio = Studio(Shelf([world]))
    studio.__dict__["books"] = Books()
    return studio


@pytest.fixture(scope="module")
def first(world):
    return failures(Studio(Shelf([world])), Query({"audit": "audit.json"}))


def toy_features(home):
    """Features for a map, in the folder of a collection."""
    count = len(Collection.load(home))
    (home / "features/toy").mkdir(parents=True)
    np.save(home / "features/toy/features.npy", np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32))
    np.save(home / "features/toy/present.npy", np.ones(count, bool))


def sentences(shown):
    """What the page says of an audit: that nothing was found, the findings, and what is undecided."""
    return [*filter(None, [shown["sentence"]]), *(one["sentence"] for one in shown["findings"] + shown["undecided"])]


def where(*members):
    return json.dumps([member.facts() for member in members])


def test_an_audit_leads_to_its_run(first, world):
    """The file says which predictions it is of; other runs of the benchmark can be compared with it."""
    sources = Audit.load(world / "audit.json").card["sources"]
    assert first["audit"] == "audit.json"
    assert str(world / first["run"]) == sources["predictions"]
    assert (first["benchmark"], first["on"]) == ("benchmarks/minority", "collections/scenes")
    assert len(first["others"]) == 4
    benchmark = Benchmark.load(world / "benchmarks/minority")
    assert first["sealed"] == sealed(benchmark.items[benchmark.split == "test"]).sum()


def test_a_damaged_benchmark_hides_no_run_of_another(first, world, tmp_path):
    """A run whose benchmark was moved is found beside one that cannot be read."""
    shutil.copytree(world, tmp_path / "work")
    (tmp_path / "work/benchmarks/broken").mkdir()
    (tmp_path / "work/benchmarks/broken/benchmark.json").write_text("{")
    answer = context(Studio(Shelf([tmp_path / "work"])), Query({"run": first["run"]}))
    assert answer["n_open"] == first["n"] - first["sealed"]


def test_the_view_begins_with_a_run_that_has_no_audit(desk, first, world, tmp_path):
    """Opened without a word it shows no audit, and a run of which a finding can be confirmed; else the first run."""
    begun = failures(desk, Query({}))
    assert begun["audit"] == ""
    assert begun["run"] in {name for name, _ in begun["runs"]} - {first["run"]}
    assert not any(path.startswith("findings") for path in begun["also"])
    assert failures(desk, Query({"audit": "open"}))["run"] == begun["run"]
    shutil.copytree(world, tmp_path / "copy")
    for name, _ in begun["runs"]:
        if name != first["run"]:
            shutil.rmtree(tmp_path / "copy" / name)
    assert failures(Studio(Shelf([tmp_path / "copy"])), Query({}))["run"] == first["run"]


def test_who_opens_an_audit_is_told_what_it_costs(desk, first):
    """Once the view has an audit on disk open, nothing of its run can be confirmed; one made here costs nothing."""
    query = {"run": first["run"], "where": where(Predicate.of("location", "indoors"))}
    failures(desk, Query({"audit": "open", "run": first["run"]}))
    assert context(desk, Query(query))["books"]["spent"] == ""
    failures(desk, Query({"audit": "audit.json"}))
    assert "can confirm nothing more" in context(desk, Query(query))["books"]["spent"]
    with pytest.raises(ShiftBenchError, match="can confirm nothing more"):
        confirm(desk, query)


def test_findings_are_the_sentences_of_the_audit(desk, first, world):
    """Every sentence of the file is told, findings with their predicates; opened twice it is one look."""
    audit = Audit.load(world / "audit.json")
    for _ in range(2):
        shown = findings(desk, Query({"audit": "audit.json", "run": first["run"]}))
    assert sentences(shown) == [line.strip() for line in audit.sentences()]
    assert [len(one["where"]) for one in shown["findings"]] == [len(one.members) for one in audit.findings]
    assert len(desk.books.looks) == 1


def test_a_context_is_the_mean_of_its_open_items(desk, first, world):
    """Numbers, confusion, examples and calibration are those of the joined items that are not sealed."""
    items = join(world / first["run"], world / "benchmarks/minority", loss_named("error"))
    shown = ~sealed(items.known.items)
    member = Predicate.of("location", "indoors")
    inside = items.known.factor("location") == "indoors"
    answer = context(desk, Query({"run": first["run"], "where": where(member)}))
    assert answer["n"] == (inside & shown).sum()
    assert answer["inside"][0] == pytest.approx(items.loss[inside & shown].mean())
    assert answer["outside"][0] == pytest.approx(items.loss[~inside & shown].mean())
    assert np.sum(answer["confusion"]["cells"]) == answer["n"]
    assert np.trace(answer["confusion"]["cells"]) == (items.loss[inside & shown] == 0).sum()
    assert sum(side["n"] for side in answer["sides"]) == answer["n"]
    listed = [item["id"] for side in answer["sides"] for item in side["items"]]
    assert listed
    assert not sealed(np.asarray(listed)).any()
    assert sum(one["n"] for one in answer["calibration"]["inside"]) in (0, answer["n"])
    assert answer["books"]["sealed_inside"] == (inside & ~shown).sum()


def test_a_cell_of_the_confusion_is_a_filter(desk, first):
    """The two predicates of a cell hold for as many items as the cell says."""
    table = context(desk, Query({"run": first["run"]}))["confusion"]
    for row, column in ((0, 1), (1, 0)):
        cell = json.dumps([table["rows"][row], table["columns"][column]])
        assert context(desk, Query({"run": first["run"], "where": cell}))["n"] == table["cells"][row][column]


def test_two_runs_are_told_apart_item_by_item(desk, first, world):
    """Items that both, one or none of two runs gets right; examples are those that only one does."""
    other = next(name for name, _ in first["others"] if name != first["run"])
    answer = context(desk, Query({"run": first["run"], "against": other}))
    assert msgspec.json.encode(answer)  # all plain numbers
    one, two = (join(world / run, world / "benchmarks/minority", loss_named("error")) for run in (first["run"], other))
    shown = ~sealed(one.known.items)
    right = [(items.loss == 0)[shown] for items in (one, two)]
    assert answer["pairs"] == {"both": (right[0] & right[1]).sum(), "only_this": (right[0] & ~right[1]).sum(),
                               "only_other": (~right[0] & right[1]).sum(), "none": (~right[0] & ~right[1]).sum()}
    assert [side["n"] for side in answer["sides"]] == [answer["pairs"]["only_other"], answer["pairs"]["only_this"]]


def test_the_map_is_one_point_per_open_item(desk, first, world, tmp_path):
    """Features on disk in two principal components: row, place, whether the item fails; no sealed item is on it."""
    shutil.copytree(world, tmp_path / "copy")
    toy_features(tmp_path / "copy/collections/scenes")
    studio = Studio(Shelf([tmp_path / "copy"]))
    begun = failures(studio, Query({"audit": "audit.json"}))  # a copy: run, benchmark and collection are found in it
    assert (begun["run"], begun["on"], begun["maps"]) == (first["run"], "collections/scenes", ["toy"])
    outcomes = find_outcomes(studio, Query({"run": first["run"]}))
    body = points(studio, Query({"run": first["run"], "features": "toy"})).body
    table = np.frombuffer(body, "<f4").reshape(-1, 5)
    assert sorted(table[:, 0]) == sorted(outcomes.items.rows[~outcomes.sealed])
    assert table[:, 3].sum() == outcomes.wrong[~outcomes.sealed].sum()
    with pytest.raises(ShiftBenchError, match="No features named"):
        points(studio, Query({"run": first["run"], "features": "../../secret"}))


def test_the_command_prints_the_numbers_of_the_page(first, world, tmp_path):
    """Context, confusion, calibration, pairs and maps: `show` prints those that the page has, whatever the filter."""
    shutil.copytree(world, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy/benchmarks/minority")
    sb.build(tmp_path / "copy/recipes/minority.toml", out=tmp_path / "copy/benchmarks/minority")
    toy_features(tmp_path / "copy/collections/scenes")
    studio = Studio(Shelf([tmp_path / "copy"]))
    other = next(name for name, _ in first["others"] if name != first["run"])
    cell = where(Predicate.of("class", "cat", "label"), Predicate.of("prediction", "dog", "prediction"))
    for query in ({}, {"where": where(Predicate.of("location", "indoors"))}, {"where": cell}, {"against": other}):
        shown = context(studio, Query({"run": first["run"], **query}))
        result = CliRunner().invoke(app, [*shlex.split(shown["command"])[1:], "--json"])
        assert result.exit_code == 0, result.output
        printed = json.loads(result.stdout)
        maps = printed.pop("maps")
        assert printed == json.loads(msgspec.json.encode({name: shown[name] for name in printed}))
        assert {"inside", "outside", "difference", "confusion", "calibration", "pairs"} <= set(printed)
        table = np.frombuffer(points(studio, Query({"run": first["run"], "features": "toy", **query})).body, "<f4")
        assert maps == {"toy": {"n": len(table) // 5, "fail": table[3::5].sum()}}
    words = shlex.split(shown["command"])[1:]
    assert "Calibration" in CliRunner().invoke(app, words).stdout
    wrong = CliRunner().invoke(app, [*words[:2], "--data", str(tmp_path / "copy/collections/scenes")])
    assert isinstance(wrong.exception, ShiftBenchError)


def test_the_command_prints_the_findings_of_the_page(desk, first):
    """An audit on disk, with options of its own, and one of the open items: `audit` says the same sentences."""
    for name in ("audit.json", "open"):
        shown = findings(desk, Query({"run": first["run"], "audit": name}))
        result = CliRunner().invoke(app, [*shlex.split(shown["command"])[1:], "--json"])
        printed = json.loads(result.stdout)
        assert [line.strip() for line in printed["sentences"]] == sentences(shown)
        assert (printed["card"]["level"], printed["card"]["n"]) == (shown["level"], shown["n_audited"])


def test_principal_components_keep_the_longest_way():
    """Points on a line are on the first axis, whichever of rows and columns are more."""
    line = np.linspace(0, 1, 30)[:, None] * np.ones((1, 50), np.float32)
    for features in (line, line[:, :5], line[:, :1]):
        assert principal(features)[:, 0] == pytest.approx(np.linspace(0, 1, 30), abs=1e-4)


def test_a_filter_is_confirmed_on_sealed_items_alone(desk, first):
    """The page says how many looks, at which level and what came out; the second request changes nothing."""
    run = first["run"]
    query = {"run": run, "where": where(Predicate.of("location", "indoors"))}
    before = context(desk, Query(query))["books"]
    test = confirm(desk, query)["test"]
    assert test["looks"] == before["looks"] + 1
    assert test["level"] == pytest.approx(before["level"])
    assert f"after {test['looks']} looks" in test["sentence"]
    assert confirm(desk, query)["test"] == test
    assert context(desk, Query(query))["books"]["test"] == test
    with pytest.raises(ShiftBenchError, match="confirmed alone"):
        confirm(desk, {"run": run, "where": where(Predicate.of("class", "cat", "label"),
                                                  Predicate.of("prediction", "dog", "prediction"))})


HUNTERS, FILTERS = 6, 12
"""People who hunt in noise, and the filters that each opens."""


def hunt(server, run, rng):
    """Open filters at random through the server, and confirm those that look worst."""
    def get(name, **state):
        with urlopen(f"{server.root}api/{name}?{urlencode({'token': TOKEN, 'run': run, **state})}") as answer:  # noqa: S310
            return json.loads(answer.read())

    def confirmed(where):
        wish = Request(f"{server.root}api/confirm?token={TOKEN}", json.dumps({"run": run, "where": where}).encode())  # noqa: S310
        with urlopen(wish) as answer:  # noqa: S310
            return json.loads(answer.read())["test"]["confirmed"]

    values = [value["is"] for column in get("failures")["columns"] for value in column["values"]
              if value["is"]["kind"] not in ("prediction", "label")]
    seen = []
    for number in rng.choice(len(values), FILTERS, replace=False).tolist():
        context = get("context", where=json.dumps([values[number]]))
        if 0 < context["books"]["sealed_inside"] < context["books"]["sealed"]:
            seen.append((context["difference"][1], number))
    best = [values[number] for _, number in sorted(seen, reverse=True)[:3]]
    return [confirmed(json.dumps([member])) for member in best], max(seen)[0] > 0


@pytest.mark.slow
def test_who_hunts_in_noise_through_the_server_confirms_nothing(world, tmp_path):
    """Of runs that guess, no filter is confirmed on sealed items, though some looks are "significant" on open ones.

    What the proof of the books allows is 5 % of people; these draws are fixed, and far fewer.
    """
    lucky = 0
    for person in range(HUNTERS):
        folder = tmp_path / f"person {person}"
        shutil.copytree(world / "collections", folder / "collections")
        shutil.copytree(world / "benchmarks", folder / "benchmarks")
        benchmark = Benchmark.load(folder / "benchmarks/minority")
        rng = np.random.default_rng(person)
        run = make_run(folder / "runs", person)
        write_json(run / "run.json", read_json(run / "run.json") | {"benchmark": {
            "name": "minority", "digest": benchmark.digest, "path": str(folder / "benchmarks/minority")}})
        sb.Predictions.of(benchmark, benchmark.items, logits=rng.normal(size=(len(benchmark), 2))).save(
            run / "predictions.parquet")
        server = Server(folder, edit=True)
        try:
            confirmed, significant = hunt(server, f"runs/{run.name}", rng)
        finally:
            server.stop()
        assert not any(confirmed)
        assert len(server.studio.books.tests()) == 3
        lucky += significant
    assert lucky >= 2


def test_a_confirmation_says_which_way_the_difference_goes():
    """More or fewer points, and no sign beside the word."""
    more = Confirmation("run", (Predicate.of("location", "indoors"),), 1, 2, 0.0125, 0.5, 10, 20, 0.5, 0.3, 0.7, 0.3,
                        0.2, -0.1, 0.5)
    assert "others: 20 points more, interval −10 to +50" in confirmation_facts(more)["sentence"]
    fewer = replace(more, loss=0.3, rest=0.5, difference=-0.2, difference_low=-0.5, difference_high=0.1)
    assert "others: 20 points fewer, interval −50 to +10" in confirmation_facts(fewer)["sentence"]


def test_outcomes_of_sealed_items_change_nothing_that_is_shown(desk, first, monkeypatch):
    """With all predictions of sealed items turned round, every view of the run is the same."""
    query = Query({"run": first["run"], "where": where(Predicate.of("location", "indoors"))})
    before = context(desk, query)
    outcomes = find_outcomes(desk, query)
    turned = replace(outcomes.items, loss=np.where(outcomes.sealed, 1 - outcomes.items.loss, outcomes.items.loss),
                     choices=np.where(outcomes.sealed, outcomes.items.truth, outcomes.items.predicted))
    monkeypatch.setattr("shiftbench.webapp.failures_view.find_outcomes",
                        lambda studio, query: outcomes._replace(items=turned))
    assert context(desk, query) == before


@pytest.mark.parametrize("run", ["runs/../runs", "runs/..", "../runs/x", "/etc/passwd", "runs/none", ""])
def test_a_run_is_one_that_is_there(desk, run):
    """Names that lead elsewhere are unknown runs."""
    with pytest.raises(ShiftBenchError, match="No "):
        context(desk, Query({"run": run}))
