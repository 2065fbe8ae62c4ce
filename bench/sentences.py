"""Captions through all-MiniLM-L6-v2 from a fresh process: our numpy forward against transformers and torch.

    python bench/sentences.py [--captions 1000]

Each side runs in a process of its own on one thread and starts from text: it imports, loads the same files and encodes.
transformers does what sentence-transformers does: captions sorted by length, 32 at a time, padded and masked. Times are
processor time, so that others at work on the machine count less; memory is the peak of the process.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from shiftbench.text.encoders import packaged_model

WORDS = """a a a the of on in with and at next to man woman people person dog cat horse bird bus train truck
airplane boat bench table plate food pizza street field grass beach water snow kitchen room sitting standing holding
riding wearing walking playing eating looking large small white black red green old young two three group several top
side front baseball tennis surfboard skateboard umbrella giraffe elephant zebra bathroom"""
OURS = """
from shiftbench.text import encoder
model = encoder()
started = time.process_time()
vectors = model.encode(texts)
"""
THEIRS = """
import numpy, torch
from transformers import AutoModel, AutoTokenizer
torch.set_num_threads(1)
words, net = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
started = time.process_time()
vectors = numpy.empty((len(texts), net.config.hidden_size), numpy.float32)
order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
with torch.inference_mode():
    for start in range(0, len(order), 32):
        rows = order[start:start + 32]
        batch = words([texts[row] for row in rows], padding=True, truncation=True, max_length=256, return_tensors="pt")
        mask = batch["attention_mask"][..., None]
        mean = (net(**batch).last_hidden_state * mask).sum(1) / mask.sum(1)
        vectors[rows] = torch.nn.functional.normalize(mean)
"""
TIMED = """
import json, resource, sys, time
folder, texts = sys.argv[1], json.load(sys.stdin)
{work}
ended = time.process_time()
print(json.dumps([started, ended - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
                  vectors.astype(float).tolist()]))
"""


def captions(n: int) -> list[str]:
    """As long as COCO's: 8 words at least, 10.5 in the mean."""
    rng, words = np.random.default_rng(0), WORDS.split()
    return [" ".join(rng.choice(words, 8 + rng.poisson(2.5))) + "." for _ in range(n)]


def measure(name: str, work: str, folder: Path, texts: list[str]) -> tuple[float, np.ndarray]:
    """Seconds of a fresh process from its start to the last vector, and the vectors."""
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1") | {"TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run([sys.executable, "-c", TIMED.format(work=work), str(folder)], input=json.dumps(texts),
                          env=os.environ | one_thread, check=True, stdout=subprocess.PIPE, text=True)
    start, encode, memory, vectors = json.loads(done.stdout.splitlines()[-1])
    print(f"{name:<13} {start:6.2f} s to start, {encode:6.2f} s to encode: {len(texts) / encode:5.0f} captions/s, "
          f"peak memory {memory:.0f} MB", flush=True)
    return start + encode, np.asarray(vectors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--captions", type=int, default=1000)
    texts, folder = captions(parser.parse_args().captions), packaged_model()
    ours, vectors = measure("ours, numpy", OURS, folder, texts)
    theirs, others = measure("transformers", THEIRS, folder, texts)
    difference = float(np.abs(vectors - others).max())
    print(f"largest difference between the vectors: {difference:.1e}")
    assert difference < 1e-5
    print(f"ratio: {theirs / ours:.1f}")


if __name__ == "__main__":
    main()
