"""The books count every look once, keep items sealed, and confirm what is there, and what is not in 5 % at most."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import beta

from shiftbench.auditing.contrasts import fisher, fisher_within
from shiftbench.auditing.predicates import Predicate
from shiftbench.core.errors import ShiftBenchError
from shiftbench.webapp.looks import ALPHA, SHARE, Books, codes_of, level, sealed

ITEMS = np.asarray([f"item {number}" for number in range(1500)])


def predicate(column, value="yes"):
    return Predicate(column, value, "factor", f"{column} is {value}")


def test_a_look_counts_once_and_in_every_process(tmp_path):
    """The same state is one look, whatever the order of its keys; another tab or process sees it, and adds its own."""
    files = (tmp_path / "books.jsonl", tmp_path / "other.jsonl")
    first, second = Books(files), Books(files[::-1])
    assert first.look("run", {"where": [1], "sort": "x"}) == 1
    assert first.look("run", {"sort": "x", "where": [1]}) == 1
    assert second.look("run", {"sort": "x", "where": [1]}) == 1
    assert second.look("other run", {"sort": "x", "where": [1]}) == 2
    assert first.look("run", {"where": [2]}) == 3
    assert len(Books(files).looks) == 3


def test_threads_that_look_at_once_lose_nothing(tmp_path):
    """Books of eight tabs on one file, all writing: every look is in the file, each once."""
    def tab(number):
        books = Books((tmp_path / "books.jsonl",))
        return [books.look("run", {"state": (number * 5 + step) % 40}) for step in range(20)]

    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(tab, range(8)))
    assert len(Books((tmp_path / "books.jsonl",)).looks) == 40
    assert max(map(max, counts)) == 40


def test_a_line_cut_short_is_a_look_and_spoils_nothing(tmp_path):
    """What a killed process left half-written, or somebody changed, is counted, and later lines are whole."""
    file = tmp_path / "books.jsonl"
    Books((file,)).look("run", {"state": 1})
    with file.open("ab") as handle:
        handle.write(b'{"look": "abc", "subj')
    assert Books((file,)).look("run", {"state": 2}) == 2
    assert len(Books((file,)).looks) == 3


def test_books_that_cannot_be_written_confirm_nothing(tmp_path):
    """Looks are counted in memory, but a confirmation that a restart would forget is refused."""
    (tmp_path / "file").write_text("")
    books = Books((tmp_path / "file" / "books.jsonl",))
    assert books.look("run", {"state": 1}) == 1
    inside = np.arange(1500) % 2 == 0
    with pytest.raises(ShiftBenchError, match="cannot be written"):
        books.confirm("run", [predicate("a")], ITEMS, inside, inside)


def test_sealed_items_are_a_fixed_share_whatever_else_is_there():
    """About 30 % of ids; the same for an item alone, in any order and in wider strings."""
    held = sealed(ITEMS)
    assert abs(held.mean() - SHARE) < 4 * np.sqrt(SHARE * (1 - SHARE) / len(ITEMS))
    order = np.random.default_rng(0).permutation(len(ITEMS))
    assert np.array_equal(sealed(ITEMS[order].astype("U80")), held[order])
    assert [bool(sealed(ITEMS[row:row + 1])[0]) for row in range(50)] == held[:50].tolist()
    assert len(np.unique(codes_of(ITEMS))) == len(ITEMS)
    assert sealed(ITEMS[:0]).shape == (0,)


def test_the_levels_of_all_confirmations_sum_to_alpha_at_most():
    """However many looks stand between them: L rises by one at least with every confirmation."""
    rng = np.random.default_rng(0)
    for most in (1, 2, 30):
        looks = np.cumsum(rng.integers(1, most + 1, 20_000))
        assert level(looks, np.arange(1, len(looks) + 1)).sum() < ALPHA


def test_fisher_within_counts_orders_within_strata():
    """It is the share of all orders of the errors within strata that have as many inside; one stratum is Fisher's."""
    errors = np.asarray([1, 0, 1, 1, 0, 0, 1, 0], bool)
    inside = np.asarray([1, 0, 1, 0, 1, 0, 1, 0], bool)
    stratum = np.asarray([0, 0, 0, 0, 1, 1, 1, 1])
    orders = [np.asarray(one + other, bool) for one in itertools.permutations(errors[:4].tolist())
              for other in itertools.permutations(errors[4:].tolist())]
    share = np.mean([(order & inside).sum() >= (errors & inside).sum() for order in orders])
    assert fisher_within(errors, inside, stratum) == pytest.approx(share)
    assert fisher_within(errors, inside, np.zeros(8, int)) == pytest.approx(fisher(3, 4, 4, 8))
    assert fisher_within(errors, stratum == 1, stratum) == pytest.approx(1)


def test_a_finding_is_confirmed_once(tmp_path):
    """The second request gives the first answer, in any order of predicates and in another process; it is one look."""
    rng = np.random.default_rng(0)
    wrong, inside = rng.random(1500) < 0.3, rng.random(1500) < 0.5
    books, both = Books((tmp_path / "b.jsonl",)), [predicate("a"), predicate("b")]
    first = books.confirm("run", both, ITEMS, inside, wrong)
    assert first.n + first.n_rest == sealed(ITEMS).sum()
    again = Books((tmp_path / "b.jsonl",)).confirm("run", both[::-1], ITEMS, inside, ~wrong)
    assert again == first
    assert len(books.looks) == len(books.tests()) == 1
    assert books.next_level() == level(2, 2)


def test_the_same_items_under_another_name_are_not_confirmed_again():
    """What a confirmation has told cannot be told a second time: within its items nothing differs."""
    inside = np.arange(1500) % 3 == 0
    wrong = inside & (np.arange(1500) % 2 == 0)
    books = Books()
    assert books.confirm("run", [predicate("a")], ITEMS, inside, wrong).confirmed
    assert books.confirm("run", [predicate("b")], ITEMS, inside, wrong).p == pytest.approx(1)


def test_nothing_to_compare_is_refused_and_costs_nothing():
    """A filter that holds all sealed items, or none of them, is an error and no look."""
    books = Books()
    for inside in (np.ones(1500, bool), np.zeros(1500, bool)):
        with pytest.raises(ShiftBenchError, match="nothing to compare"):
            books.confirm("run", [predicate("a")], ITEMS, inside, inside)
    assert books.looks == []


def hunt(rng, books, columns, wrong, many):
    """Open every filter, confirm those that look worst, and then what the answers themselves suggest."""
    open_items = ~sealed(ITEMS)
    names = list(range(columns.shape[1]))
    gaps = []
    for name in names:
        books.look("run", {"where": name})
        inside = columns[:, name] & open_items
        gaps.append(wrong[inside].mean() - wrong[open_items & ~columns[:, name]].mean())
    best = np.argsort(gaps)[::-1][:many].tolist()
    answers = [(books.confirm("run", [predicate(str(name))], ITEMS, columns[:, name], wrong), columns[:, name])
               for name in best]
    answers.sort(key=lambda one: -one[0].difference)
    for (_, one), (_, other) in list(itertools.pairwise(answers)):  # what sealed numbers favour, combined
        for number, inside in enumerate((one | other, one & other)):
            answers.append((books.confirm("run", [predicate(f"{id(one)} {id(other)} {number}")], ITEMS, inside, wrong),
                            inside))
    return [answer.confirmed for answer, _ in answers], max(gaps)


@pytest.mark.slow
def test_who_hunts_in_noise_ends_with_few_false_confirmations():
    """Of 100 people who open 25 filters of noise and confirm by what they see, also on sealed items, so few get a
    false confirmation that the exact limit of 95 % of their share lies under 5 %. Without the books most "find" one.
    """
    rng = np.random.default_rng(0)
    false = naive = 0
    people = 100
    for _ in range(people):
        columns, wrong = rng.random((1500, 25)) < 0.3, rng.random(1500) < 0.25
        confirmed, gap = hunt(rng, Books(), columns, wrong, 4)
        false += any(confirmed)
        naive += gap > 1.645 * np.sqrt(0.25 * 0.75 * (1 / 315 + 1 / 735))
    assert beta.isf(0.05, false + 1, people - false) < ALPHA  # Clopper and Pearson
    assert naive / people > 0.5


def test_who_hunts_where_something_is_finds_it():
    """A context with 60 % instead of 25 % errors is confirmed after 25 looks in at least 80 of 100 draws."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(100):
        columns = rng.random((1500, 25)) < 0.3
        wrong = rng.random(1500) < np.where(columns[:, 7], 0.6, 0.25)
        books = Books()
        hits += hunt(rng, books, columns, wrong, 1)[0][0]
        test = books.tests()[0]
        assert test.difference_low <= test.difference <= test.difference_high
    assert hits >= 80
