"""Where to get published data sets: files, addresses, sizes, checksums, licences, and the command that reads them.

Facts are as their makers or the projects named in `by` and `origin` publish them; none of the hosts was tried. A size
or a checksum that nobody publishes is None. A checksum `git` is the id of a file in a git repository.
"""

import json
from dataclasses import asdict, dataclass, replace
from importlib.resources import files as resources
from typing import Any

from shiftbench.core.errors import unknown


@dataclass(frozen=True)
class Checksum:
    """The checksum of a whole file; `by` says who publishes it."""

    algorithm: str
    value: str
    by: str


@dataclass(frozen=True)
class File:
    """One file to fetch. `path` is below the root, and below --from.

    `urls` are tried in this order. `unpack` is the folder below the root into which an archive goes, without the
    leading folder `strip`; None leaves the file as it is. Sizes that are not `exact` are for disk space and progress.
    """

    path: str
    urls: tuple[str, ...]
    size: int | None = None
    checksum: Checksum | None = None
    exact: bool = True
    unpack: str | None = None
    strip: str = ""


@dataclass(frozen=True)
class Licence:
    """`commercial` is yes, no or not said; `note` is what else a user must know."""

    name: str
    url: str
    commercial: str
    note: str = ""


@dataclass(frozen=True)
class Source:
    """A data set that `shiftbench download` knows, by the words of its name.

    `folder` holds it below the root, `disk` is its size in bytes once unpacked, `read` the command that reads it, with
    {root} for the root (empty where there is no reader). `login` says what to do where the makers want a registration.
    """

    name: tuple[str, ...]
    what: str
    folder: str
    files: tuple[File, ...]
    licence: Licence
    citation: str
    origin: str
    read: str = ""
    disk: int | None = None
    login: str = ""

    @property
    def words(self) -> str:
        """The name as it is typed."""
        return " ".join(self.name)

    @property
    def size(self) -> int:
        """Bytes to fetch, of the files whose size is published."""
        return sum(file.size or 0 for file in self.files)

    @property
    def sized(self) -> bool:
        """Whether the size of every file is published."""
        return all(file.size is not None for file in self.files)

    @property
    def checksums(self) -> str:
        """Which files have a published checksum: all, some, or "not published"."""
        count = sum(file.checksum is not None for file in self.files)
        return "all" if count == len(self.files) else "some" if count else "not published"

    @property
    def size_in_words(self) -> str:
        """The size of the download; "or more" if it is published for some files only."""
        if not self.size:
            return "not published"
        size = f"{self.size / 1e9:,.1f} GB" if self.size >= 1e9 else f"{max(1, round(self.size / 1e6))} MB"
        return size if self.sized else f"{size} or more"

    def to_json(self) -> dict[str, Any]:
        """All of it, in plain types."""
        return {
            "name": self.words, "what": self.what, "folder": self.folder, "size": self.size if self.sized else None,
            "disk": self.disk, "licence": asdict(self.licence), "citation": self.citation, "origin": self.origin,
            "next": self.read, "login": self.login,
            "files": [{"path": file.path, "urls": list(file.urls), "size": file.size, "exact": file.exact,
                       "checksum": file.checksum and asdict(file.checksum)} for file in self.files]}


TFDS = "tensorflow/datasets"
TORCHVISION = "pytorch/vision"
WILDS_SOURCE = "p-lambda/wilds 2.0 (October 2022)"
RESEARCH = "research only"
DRIVE = "https://drive.usercontent.google.com/download?id={key}&export=download&confirm=t"


def _sha256(value: str, by: str = TFDS) -> Checksum:
    return Checksum("sha256", value, by)


# Licences.

CC0 = Licence("CC0 1.0", "https://creativecommons.org/publicdomain/zero/1.0/", "yes")
CC_BY = Licence("CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/", "yes", "Name the makers.")
CC_BY_NC_SA = Licence("CC BY-NC-SA 4.0", "https://creativecommons.org/licenses/by-nc-sa/4.0/", "no")
CDLA = Licence("CDLA Permissive 1.0", "https://cdla.dev/permissive-1-0/", "yes")
MIT = Licence("MIT", "https://opensource.org/license/mit", "yes")
APACHE = Licence("Apache 2.0", "https://www.apache.org/licenses/LICENSE-2.0", "yes")
FMOW = Licence("FMoW Challenge Public License", "https://github.com/fMoW/dataset/blob/master/LICENSE", "no",
               "Changed copies are shared under the same terms.")
AMAZON = Licence(RESEARCH, "https://nijianmo.github.io/amazon/index.html", "no",
                 "There is no licence; the makers ask that the data be used for research only.")
LANDSAT = Licence("U.S. public domain (images)", "https://github.com/sustainlab-group/africa_poverty", "not said",
                  "LandSat, DMSP and VIIRS images are public domain; the labels come from DHS surveys, which have "
                  "terms of their own: https://dhsprogram.com.")
COCO_TERMS = Licence("CC BY 4.0 (annotations)", "https://cocodataset.org/#termsofuse", "not said",
                     "The images belong to their photographers, under the terms of Flickr.")
GQA_TERMS = Licence("CC BY 4.0", "https://cs.stanford.edu/people/dorarad/gqa/about.html", "not said",
                    "The licence is Visual Genome's; GQA's own pages state none for what GQA adds.")
BIRDS = Licence("non-commercial research and education", "https://www.vision.caltech.edu/datasets/cub_200_2011/", "no",
                "Made of CUB-200-2011 and Places; the terms of both hold.")
FACES = Licence("non-commercial research", "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html", "no",
                "The images may not be passed on or published.")
NORB = Licence("research purposes; not to be sold", "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/", "no")
IMAGENET_TERMS = Licence("ImageNet terms of access", "https://image-net.org/download.php", "no",
                         "Non-commercial research and education, for people who registered.")
BSD = Licence("BSD 3-Clause", "https://github.com/dmadras/nooch/blob/main/LICENSE", "yes",
              "The lists name images of COCO, which has terms of its own.")
NONE_STATED = Licence("none stated", "https://github.com/MadryLab/BREEDS-Benchmarks", "not said",
                      "The repository has no licence file: do not pass the files on.")
WORDNET_TERMS = Licence("WordNet 3.0", "https://wordnet.princeton.edu/license-and-commercial-use", "yes")


# WILDS: an archive per data set, unpacked into NAME_vVERSION as the package does. Sizes are the package's own, which it
# calls approximate; checksums are published for none.

KOH = "Koh et al., WILDS: A benchmark of in-the-wild distribution shifts, ICML 2021"
SAGAWA_2 = "Sagawa et al., Extending the WILDS benchmark for unsupervised adaptation, ICLR 2022"
GB = 10**9


def _wilds(
    name: str, version: str, bundle: str, size: int | None, licence: Licence, disk: float | None,
    read: str | None = None, what: str = "",
) -> Source:
    folder = f"{name}_v{version}"
    unlabelled = name.endswith("_unlabeled")
    file = File(f"{folder}/archive.tar.gz", (f"https://worksheets.codalab.org/rest/bundles/{bundle}/contents/blob/",),
                size, exact=False, unpack=folder)
    words = name.replace("_unlabeled", " --unlabelled")
    command = f"shiftbench read wilds {words} --root {{root}} --out collections/{name}"
    return Source(
        ("wilds", name), what or f"WILDS: {name} {version}", folder, (file,), licence,
        SAGAWA_2 if unlabelled else KOH, WILDS_SOURCE, command if read is None else read,
        None if disk is None else int(disk * GB))


CELEBA = "shiftbench read wilds celeba --root {root} --out collections/celeba"

WILDS = (
    _wilds("iwildcam", "2.0", "0x6313da2b204647e79a14b468131fcd64", 11_957_420_032, CDLA, 25),
    _wilds("camelyon17", "1.0", "0xe45e15f39fb54e9d9e919556af67aabe", 10_658_709_504, CC0, 15),
    _wilds("rxrx1", "1.0", "0x6b7a05a3056a434498f0bb1252eb8440", 7_413_123_845, CC_BY_NC_SA, 7.5),
    _wilds("globalwheat", "1.1", "0x36e16907b7254571b708b725f8beae52", 10_284_949_504, MIT, 10.3),
    _wilds("civilcomments", "1.0", "0x8cd3de0634154aeaad2ee6eb96723c6e", 90_644_480, CC0, 0.3),
    _wilds("fmow", "1.1", "0xaec91eb7c9d548ebb15e1b5e60f966ab", 53_893_324_800, FMOW, 55),
    _wilds("poverty", "1.1", "0xfc0aa86ad9af4eb08c42dfc40eacf094", 13_091_823_616, LANDSAT, 14),
    _wilds("amazon", "2.1", "0xe3ed909786d34ee79d430d065582aa29", 1_989_805_589, AMAZON, 7),
    _wilds("py150", "1.0", "0x442a0661a84649e69c0a946cc5f84237", 162_811_706, MIT, 0.8),
    Source(
        ("wilds", "molpcba"), "WILDS: OGB-MolPCBA, as OGB publishes it", "ogbg_molpcba", (
            File("ogbg_molpcba/pcba.zip",
                 ("https://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/pcba.zip",), 39_533_472,
                 _sha256("0bb12da2f3ec8b0bb80564114a6174fad2df6a3a0d3c19470b3a27813a7d4e53"),
                 unpack="ogbg_molpcba", strip="pcba/"),
            File("ogbg_molpcba/raw/scaffold_group.npy",
                 ("https://snap.stanford.edu/ogb/data/misc/ogbg_molpcba/scaffold_group.npy",))),
        MIT, KOH + "; Hu et al., Open Graph Benchmark, NeurIPS 2020", f"{WILDS_SOURCE}; {TFDS}",
        "shiftbench read wilds molpcba --root {root} --out collections/molpcba"),
    _wilds("iwildcam_unlabeled", "1.0", "0xff56ea50fbf64aabbc4d09b2e8d50e18", 41_016_937_676, CDLA, 41),
    _wilds("camelyon17_unlabeled", "1.0", "0xa78be8a88a00487a92006936514967d2", 69_442_379_933, CC0, 96),
    _wilds("globalwheat_unlabeled", "1.0", "0x59d4c1b8b7ad45cc83e080d11d1eaf94", 103_766_940_000, MIT, 108, ""),
    _wilds("civilcomments_unlabeled", "1.0", "0x1c471f23448e4518b000fe47aa7724e0", 254_142_009, CC0, 0.6),
    _wilds("poverty_unlabeled", "1.0", "0xdfcf71b4f6164cc1a7edb0cbb7444c8c", 172_742_430_134, LANDSAT, 184),
    _wilds("waterbirds", "1.0", "0x505056d5cdea4e4eaa0e242cbfe2daa4", None, BIRDS, None,
           "shiftbench read waterbirds {root}/waterbirds_v1.0 --out collections/waterbirds",
           "WILDS' copy of Waterbirds"),
    replace(_wilds("celebA", "1.0", "0xfe55077f5cd541f985ebf9ec50473293", 1_308_557_312, FACES, None, CELEBA,
                   "CelebA: WILDS' copy, with its tables as CSV"), name=("celeba",)),
)


# Single files, most of them of factors.

DSPRITES = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
NORB_FILES = {
    "5x46789x9x18x6x2x96x96-training-dat": (
        131_896_188, "5ffd6272a07d32695ee1082a26a41a93a37aab8c28da047f8c34ed348d214873"),
    "5x46789x9x18x6x2x96x96-training-cat": (348, "2784e542c1922060691090952b6cd6278879a216c90f81476f0f00256d42cdaa"),
    "5x46789x9x18x6x2x96x96-training-info": (
        71_052, "de7eb932ebe7a4ee16217fead60660d0eb3d23632c2f4d1c51f88c501c17bf32"),
    "5x01235x9x18x6x2x96x96-testing-dat": (
        130_799_817, "cf7104eed3e51174d2f65b66d1e5878b9da233b886f161b0d88f4510ba2c7474"),
    "5x01235x9x18x6x2x96x96-testing-cat": (347, "ecaf6d5bb8c3bc5eab9cf0258f6d2198dd474e016e374836fc097f2e5ff509ff"),
    "5x01235x9x18x6x2x96x96-testing-info": (
        10_428, "16adf314226327ee006d1a44db8cfef52773c06c829951d5653a9f6f310248a2"),
}
MPI3D = "https://storage.googleapis.com/mpi3d_disentanglement_dataset"
MPI3D_FORMER = "https://storage.googleapis.com/disentanglement_dataset/Final_Dataset"
"""MD5 sums are published only for this former bucket (nmichlo/disent); whether the present one has the same bytes is
not known, so none is checked."""
GONDAL = "Gondal et al., On the transfer of inductive bias from simulation to the real world, NeurIPS 2019"


def _mpi3d(key: str, file: File, options: str = "") -> Source:
    return Source(("mpi3d", key), f"MPI3D: {key}", "mpi3d", (file,), CC_BY, GONDAL,
                  "rr-learning/disentanglement_dataset",
                  f"shiftbench read factors {{root}}/{file.path} --kind mpi3d{options} --out collections/mpi3d-{key}")


FACTORS = (
    Source(("dsprites",), "dSprites", "dsprites", (
        File(f"dsprites/{DSPRITES}",
             (f"https://raw.githubusercontent.com/google-deepmind/dsprites-dataset/master/{DSPRITES}",
              f"https://github.com/deepmind/dsprites-dataset/raw/master/{DSPRITES}"),
             checksum=Checksum("git", "d98996d3f8ee1550e06b9d4ed78d0beb478910d5",
                               "google-deepmind/dsprites-dataset, commit fa310c66")),),
        APACHE, "Matthey et al., dSprites: Disentanglement testing sprites dataset, 2017",
        "google-deepmind/dsprites-dataset (June 2017)",
        f"shiftbench read factors {{root}}/dsprites/{DSPRITES} --kind dsprites --out collections/dsprites"),
    Source(("shapes3d",), "Shapes3D", "shapes3d", (
        File("shapes3d/3dshapes.h5", ("https://storage.googleapis.com/3d-shapes/3dshapes.h5",), 267_573_662,
             _sha256("0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785")),),
        APACHE, "Burgess and Kim, 3D Shapes dataset, 2018", TFDS,
        "shiftbench read factors {root}/shapes3d/3dshapes.h5 --kind shapes3d --out collections/shapes3d"),
    Source(("smallnorb",), "smallNORB", "smallnorb", tuple(
        File(f"smallnorb/smallnorb-{name}.mat.gz",
             (f"https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/smallnorb-{name}.mat.gz",), size, _sha256(value))
        for name, (size, value) in NORB_FILES.items()),
        NORB, "LeCun, Huang and Bottou, Learning methods for generic object recognition, CVPR 2004",
        f"cs.nyu.edu/~ylclab; {TFDS}",
        "shiftbench read factors {root}/smallnorb --kind smallnorb --out collections/smallnorb"),
    *(_mpi3d(key, File(f"mpi3d/mpi3d_{key}.npz", (f"{MPI3D}/data/{name}.npz", f"{MPI3D_FORMER}/mpi3d_{key}.npz")))
      for key, name in (("toy", "mpi3d_toy"), ("realistic", "mpi3d_realistic"), ("real", "real"))),
    _mpi3d("complex", File(
        "mpi3d/real3d_complicated_shapes_ordered.npz",
        (DRIVE.format(key="1Tp8eTdHxgUMtsZv5uAoYAbJR1BOa_OQm"),)),
        " --objects complex"),
)


# Images with tags.

VISUAL_GENOME = "https://homes.cs.washington.edu/~ranjay/visualgenome/data/dataset"
STANFORD = "https://downloads.cs.stanford.edu/nlp/data"
LIN = "Lin et al., Microsoft COCO: Common objects in context, ECCV 2014"
KRISHNA = "Krishna et al., Visual Genome, IJCV 2017"
HUDSON = "Hudson and Manning, GQA, CVPR 2019"
COCO_READ = ("shiftbench read coco {{root}}/coco/annotations/{file}_train2017.json "
             "{{root}}/coco/annotations/{file}_val2017.json {more}--out collections/coco")


def _coco(path: str, size: int | None, checksum: Checksum | None = None, exact: bool = True) -> File:
    """COCO's host has no certificate of its own; the bucket behind it answers under Amazon's."""
    return File(f"coco/{path.rpartition('/')[2]}",
                (f"https://s3.amazonaws.com/images.cocodataset.org/{path}", f"http://images.cocodataset.org/{path}"),
                size, checksum, exact, unpack="coco")


def _github(repository: str, commit: str, path: str, target: str, size: int | None, checksum: Checksum) -> File:
    return File(target, (f"https://raw.githubusercontent.com/{repository}/{commit}/{path}",
                         f"https://github.com/{repository}/raw/{commit}/{path}"), size, checksum)


def _metashift(path: str, size: int | None, algorithm: str, value: str) -> File:
    by = "Weixin-Liang/MetaShift, commit 7e5e2974"
    return _github("Weixin-Liang/MetaShift", "7e5e2974a6057182e2f3bd6cd08df1fa4e30eb5b", f"dataset/{path}",
                   f"metashift/{path.rpartition('/')[2]}", size, Checksum(algorithm, value, by))


TAGGED = (
    Source(("coco",), "COCO 2017: instances, captions, keypoints", "coco", (
        _coco("annotations/annotations_trainval2017.zip", 252_907_541,
              _sha256("113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268")),),
        COCO_TERMS, LIN, f"cocodataset.org; {TFDS}", COCO_READ.format(file="instances", more=""), GB),
    Source(("coco", "stuff"), "COCO 2017: stuff annotations", "coco", (
        _coco("annotations/stuff_annotations_trainval2017.zip", 1_100_000_000, exact=False),),
        COCO_TERMS, f"Caesar et al., COCO-Stuff, CVPR 2018; {LIN}", "cocodataset.org",
        COCO_READ.format(file="stuff", more="")),
    Source(("coco", "images"), "COCO 2017: images of train and val", "coco", (
        _coco("zips/train2017.zip", 19_336_861_798,
              _sha256("69a8bb58ea5f8f99d24875f21416de2e9ded3178e903f1f7603e283b9e06d929")),
        _coco("zips/val2017.zip", 815_585_330,
              _sha256("4f7e2ccb2866ec5041993c9cf2a952bbed69647b115d0f74da7ce8f4bef82f05"))),
        COCO_TERMS, LIN, f"cocodataset.org; {TFDS}", COCO_READ.format(file="instances", more="--images {root}/coco ")),
    Source(("gqa",), "GQA: scene graphs", "gqa", (
        File("gqa/sceneGraphs.zip", (f"{STANFORD}/gqa/sceneGraphs.zip", "https://nlp.stanford.edu/data/gqa/sceneGraphs.zip"),
             unpack="gqa"),),
        GQA_TERMS, HUDSON, "Weixin-Liang/MetaShift (July 2022)",
        "shiftbench read gqa {root}/gqa/train_sceneGraphs.json {root}/gqa/val_sceneGraphs.json --out collections/gqa"),
    Source(("gqa", "images"), "GQA: images", "gqa", (
        File("gqa/images.zip", (f"{STANFORD}/gqa/images.zip", "https://nlp.stanford.edu/data/gqa/images.zip"),
             20 * GB, exact=False, unpack="gqa"),),
        GQA_TERMS, HUDSON, "Weixin-Liang/MetaShift (July 2022)",
        "shiftbench read gqa {root}/gqa/train_sceneGraphs.json {root}/gqa/val_sceneGraphs.json "
        "--images {root}/gqa/images --out collections/gqa"),
    Source(("visual_genome",), "Visual Genome: objects, attributes, image data", "visual_genome", tuple(
        File(f"visual_genome/{name}.json.zip", (f"{VISUAL_GENOME}/{name}.json.zip",), size, exact=False,
             unpack="visual_genome")
        for name, size in (("objects", 55_323_929), ("attributes", 83_280_561), ("image_data", 1_780_854))),
        CC_BY, KRISHNA, "homes.cs.washington.edu/~ranjay/visualgenome",
        "shiftbench read gqa {root}/visual_genome/objects.json {root}/visual_genome/attributes.json "
        "{root}/visual_genome/image_data.json --out collections/visual_genome", GB),
    Source(("metashift",), "MetaShift: candidate subsets", "metashift", (
        _metashift("meta_data/full-candidate-subsets.pkl", None, "git", "f00e69efc7f38be18e191f628487cba1d6dcec90"),
        _metashift("attributes_MetaShift/attributes-candidate-subsets.pkl", 1_786_712, "git",
                   "611617413d0f4f8bba4c3244e1e2c5ea44fb65c1"),
        _metashift("attributes_MetaShift/structured-attributes-candidate-subsets.pkl", 1_763_219, "git",
                   "6dd021c9fe893131c3554ac939628853ec65d3f8")),
        MIT, "Liang and Zou, MetaShift, ICLR 2022", "Weixin-Liang/MetaShift (July 2022)",
        "shiftbench read metashift {root}/metashift/full-candidate-subsets.pkl --out collections/metashift"),
)


# Birds, faces, ImageNet, and the lists and hierarchies that belong to benchmarks.

WATERBIRDS = "waterbird_complete95_forest2water2"
BREEDS_FILES = {"class_hierarchy.txt": (26_318, "039cfaddf9732855b93f7899ba4b5ba6d80f8dbe15cfaad566f575b6c8ce0216"),
                "dataset_class_info.json": (
                    44_565, "be90503d57a001f95e094a81dc4de90772bfc58546ca58061d6474799829afd0"),
                "node_names.txt": (40_652, "322af45711ed69a7b199f11225bd964c7dae71df3c586498bef2f7c9e031dedb")}
IMAGENET_FILES = {"ILSVRC2012_img_train.tar": (147_897_477_120, "1d675b47d978889d74fa0da5fadfb00e"),
                  "ILSVRC2012_img_val.tar": (6_744_924_160, "29b22e2961454d5413ddabcf34fc5622"),
                  "ILSVRC2012_devkit_t12.tar.gz": (None, "fa75699e90414af021442c21a62c3abf")}
CELEBA_FILES = {
    "img_align_celeba.zip": ("0B7EVK8r0v71pZjFTYXZWM3FlRnM", 1_443_490_838, "00d2c5bc6d35e252742224ab0c1e8fcb"),
    "list_attr_celeba.txt": ("0B7EVK8r0v71pblRyaVFSWGxPY0U", 26_721_026, "75e246fa4810816ffd6ee81facbd244c"),
    "list_eval_partition.txt": ("0B7EVK8r0v71pY0NSMzRuSXJEVkk", 2_836_386, "d32c9cbf5e040fd4025c592c306e6668")}


def _nooch() -> tuple[File, ...]:
    """The 96 lists, the split and the names of the classes, with git's id of each at this commit."""
    files = json.loads((resources("shiftbench.downloads") / "nooch.json").read_text(encoding="utf-8"))
    by, commit = "dmadras/nooch, commit d0745ab9", "d0745ab9188c6e15863923a1aec1872cb915f8fe"
    return tuple(_github("dmadras/nooch", commit, path, f"nooch/{path}", size, Checksum("git", blob, by))
                 for path, (size, blob) in files.items())


OTHERS = (
    Source(("waterbirds",), "Waterbirds, as its makers publish it", WATERBIRDS, (
        File(f"{WATERBIRDS}/{WATERBIRDS}.tar.gz",
             (f"https://nlp.stanford.edu/data/dro/{WATERBIRDS}.tar.gz", f"{STANFORD}/dro/{WATERBIRDS}.tar.gz"),
             unpack=WATERBIRDS, strip=f"{WATERBIRDS}/"),),
        BIRDS, "Sagawa et al., Distributionally robust neural networks for group shifts, ICLR 2020",
        "kohpangwei/group_DRO", f"shiftbench read waterbirds {{root}}/{WATERBIRDS} --out collections/waterbirds"),
    Source(("celeba", "original"), "CelebA as its makers publish it: images, attributes, split", "celeba", tuple(
        File(f"celeba/{name}", (DRIVE.format(key=key),), size,
             Checksum("md5", value, TORCHVISION), unpack="celeba" if name.endswith(".zip") else None)
        for name, (key, size, value) in CELEBA_FILES.items()),
        FACES, "Liu et al., Deep learning face attributes in the wild, ICCV 2015", f"{TORCHVISION}; {TFDS} (sizes)"),
    Source(("imagenet",), "ImageNet (ILSVRC 2012)", "imagenet", tuple(
        File(f"imagenet/{name}", (), size, Checksum("md5", value, TORCHVISION))
        for name, (size, value) in IMAGENET_FILES.items()),
        IMAGENET_TERMS, "Russakovsky et al., ImageNet large scale visual recognition challenge, IJCV 2015",
        f"{TORCHVISION}; {TFDS} (sizes)", "shiftbench read imagenet {root}/imagenet --out collections/imagenet",
        login="register at https://image-net.org/download.php, fetch the three archives with a browser, then give "
              "their folder with --from; unpack train/ and val/ into a folder per class"),
    Source(("nooch",), "NOOCh: the published lists and the split they belong to", "nooch", _nooch(), BSD,
           "Madras and Zemel, Identifying and benchmarking natural out-of-context prediction problems, NeurIPS 2021",
           "dmadras/nooch (December 2021)",
           "shiftbench score PREDICTIONS.csv --nooch {root}/nooch/nooch --task car"),
    Source(("breeds",), "BREEDS: the modified hierarchy of ImageNet", "breeds", tuple(
        _github("MadryLab/BREEDS-Benchmarks", "f83be509107e89f41dde0e4e8e7f8be051fbb891",
                f"imagenet_class_hierarchy/modified/{name}", f"breeds/{name}", size,
                _sha256(value, "MadryLab/BREEDS-Benchmarks, commit f83be509"))
        for name, (size, value) in BREEDS_FILES.items()),
        NONE_STATED, "Santurkar, Tsipras and Madry, BREEDS: Benchmarks for subpopulation shift, ICLR 2021",
        "MadryLab/BREEDS-Benchmarks (August 2020)", "shiftbench hierarchy {root}/breeds"),
    Source(("wordnet",), "WordNet 3.0, whose offsets are ImageNet's ids", "wordnet", (
        File("wordnet/WordNet-3.0.tar.gz", ("https://wordnetcode.princeton.edu/3.0/WordNet-3.0.tar.gz",), 11_537_239,
             _sha256("640db279c949a88f61f851dd54ebbb22d003f8b90b85267042ef85a3781d3a52", "spack/spack"),
             exact=False, unpack="wordnet", strip="WordNet-3.0/"),),
        WORDNET_TERMS, "Fellbaum, WordNet: An electronic lexical database, MIT Press 1998", "wordnet.princeton.edu",
        "shiftbench hierarchy {root}/wordnet/dict"),
)

SOURCES: dict[tuple[str, ...], Source] = {source.name: source for source in (*WILDS, *FACTORS, *TAGGED, *OTHERS)}


def find_source(*name: str) -> Source:
    """The source of a name: find_source("wilds", "camelyon17")."""
    words = tuple(word for text in name for word in text.split())
    if words not in SOURCES:
        raise unknown("source", " ".join(words), (source.words for source in SOURCES.values()), "shiftbench download")
    return SOURCES[words]
