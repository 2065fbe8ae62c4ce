"""Which benchmark a score belongs to: the one with its digest, whatever the folder is called now."""

from collections.abc import Sequence
from dataclasses import replace

from shiftbench.core.errors import ShiftBenchError
from shiftbench.data.benchmark import Benchmark
from shiftbench.data.scores import Scores


def named(benchmarks: Sequence[Benchmark], scores: Scores) -> list[Benchmark]:
    """The benchmarks under the names that the scores have for them, found by digest.

    One whose rows are none that the scores know keeps its name, unless the scores have other rows under that name: then
    it was built anew since, and its card would explain numbers that are not about it. Scores without digests, of older
    tables, are matched by name.
    """
    pairs = dict.fromkeys(zip(scores["benchmark"].tolist(), scores["digest"].tolist(), strict=True))
    renamed: list[Benchmark] = []
    for benchmark in benchmarks:
        names = [name for name, digest in pairs if digest == benchmark.short_digest]
        others = [digest for name, digest in pairs if name == benchmark.name and digest]
        if not names and others:
            raise ShiftBenchError(f"The scores of '{benchmark.name}' were made on other rows ({others[0]}) than the "
                                  f"benchmark given now ({benchmark.short_digest}): it was built again. Score again, "
                                  "or give the benchmark that was scored.")
        renamed += [benchmark if name == benchmark.name else replace(benchmark, card={**benchmark.card, "name": name})
                    for name in names or [benchmark.name]]
    return renamed
