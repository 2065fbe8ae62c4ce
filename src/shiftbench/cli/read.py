"""shiftbench read FORMAT SOURCE... --out COLLECTION"""

import inspect
import types
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
import typer.core
import typer.main

from shiftbench.cli.output import (
    OPTION,
    Json,
    Plugins,
    Quiet,
    importing,
    load,
    noted,
    pairs,
    print_json,
    progress,
    words_after,
)

# How a reader is a command: the options that all have, what the command does, and commands for users' readers.

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the new collection.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace another collection that is in --out.")]
DropMissing = Annotated[bool, typer.Option("--drop-missing", help="Drop items whose image file is missing.")]


def read_and_save(
    form: str, sources: Sequence[Path | str], out: Path, options: Mapping[str, Any], overwrite: bool, json: bool,
    quiet: bool, bar: str = "",
) -> None:
    """Read and save, say on standard error what was left out or is missing, and show what was read.

    `bar` is the title of a progress bar, for readers that report progress.
    """
    from shiftbench.api import read as read_collection
    from shiftbench.readers import keep

    chosen: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    with noted() as notes:
        with progress(bar, quiet or json or not bar) as advance:
            collection = read_collection(form, *sources, **chosen | ({"progress": advance} if bar else {}))
        if not keep(collection, out, overwrite):
            warnings.warn(f"{out} holds this collection already; nothing was written.", UserWarning, stacklevel=2)
    if json:
        print_json({"collection": str(out), "items": len(collection), "digest": collection.digest, "notes": notes})
    elif not quiet:
        from shiftbench.cli.data import show_collection

        show_collection(collection)


# Readers of users

class Formats(typer.core.TyperGroup):
    """The formats that have a command here, and those of readers that a user registered: a command is made for each."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *own_readers()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, cmd_name) or (command_of(cmd_name) if cmd_name in own_readers() else None)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--help" in args:  # which answers before the options behind it are looked at
            load(words_after(OPTION, args))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if super().get_command(ctx, args[0]) is None:
            load(words_after(OPTION, args))
        return super().resolve_command(ctx, args)


def own_readers() -> list[str]:
    """The names of registered and installed readers."""
    from shiftbench.core.registry import load_installed
    from shiftbench.readers import READERS

    load_installed()
    return [name for name in READERS if not READERS.owner(name).ours]


def command_of(name: str) -> Any:
    """The command of a user's reader: its parameters without default are sources, the others options."""
    from shiftbench.readers import READERS

    reader = READERS[name]
    sources, options, hints = {}, {}, get_type_hints(reader)
    for key, parameter in inspect.signature(reader).parameters.items():
        kind, default = parameter.kind, parameter.default
        if default is parameter.empty and kind not in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            many = kind is parameter.VAR_POSITIONAL
            sources[key] = _parameter(key, Annotated[list[str] if many else str, typer.Argument()])
        elif kind is not parameter.VAR_KEYWORD:
            options[key] = _parameter(key, _option_type(hints.get(key, str), default), default)

    def command(**words: Any) -> None:
        files = [file for key in sources for file in ([words[key]] if isinstance(words[key], str) else words[key])]
        chosen = {key: words[key] for key in (*options, "drop_missing")}
        read_and_save(name, files, words["out"], chosen, *(words[key] for key in ("overwrite", "json", "quiet")))

    command.__doc__ = reader.__doc__ or f"The reader {name} of {READERS.owner(name)}."
    parameters = [*sources.values(), *options.values(), *inspect.signature(_options).parameters.values()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
    app.command(name)(importing(command))
    return typer.main.get_command(app)


def _options(*, out: Out, drop_missing: DropMissing = False, overwrite: Overwrite = False, json: Json = False,
             quiet: Quiet = False) -> None:
    """The options that every reader has."""


def _parameter(key: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _option_type(hint: Any, default: Any) -> Any:
    """The type of an option: the parameter's where a command line has it, else that of its default, else text."""
    hints = get_args(hint) if isinstance(hint, types.UnionType) else [hint]
    kind = next((kind for kind in (*hints, type(default)) if kind in SIMPLE), str)
    return kind if default is not None else kind | None


SIMPLE = (str, int, float, bool, Path)
"""Types of options."""


# shiftbench read FORMAT SOURCE... --out COLLECTION

read = typer.Typer(cls=Formats, no_args_is_help=True,
                   help="Make a collection: read annotations, or draw a built-in world.")


@read.callback()
def _imports(plugins: Plugins = None) -> None:
    """Make a collection: read annotations, or draw a built-in world."""


@read.command("world")
def read_world(
    world: Annotated[str, typer.Argument(help="Name of the world: scenes or sprites.")],
    out: Out,
    items: Annotated[int, typer.Option(help="How many items to draw.")] = 6000,
    seed: Annotated[int, typer.Option(min=0, help="Item i of a seed is the same whatever else is drawn.")] = 0,
    size: Annotated[int, typer.Option(help="Pixels per side: 32 to 256; sprites 32, 64, 128, 256.")] = 64,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Draw a built-in world: no download, and the truth about every picture is known.

    shiftbench read world scenes --items 6000 --seed 0 --out collections/scenes
    """
    options = {"items": items, "seed": seed, "size": size}
    read_and_save("world", [world], out, options, overwrite, json, quiet, bar=f"drawing {world}")


Sources = Annotated[list[Path], typer.Argument(help="One or more files; they are merged by image id.")]
Images = Annotated[Path | None, typer.Option(help="Folder of the image files; without it there are no pixels.")]
Name = Annotated[str | None, typer.Option(help="Name of the collection.")]


@read.command("coco")
def read_coco(
    sources: Sources,
    out: Out,
    images: Images = None,
    unannotated: Annotated[bool, typer.Option("--unannotated", help="Keep images that no instances or stuff file "
                                              "lists; they have no tags.")] = False,
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """COCO instances, stuff and captions files, and LVIS: categories become tags with areas and boxes, captions texts.

    Items are the images that an instances or stuff file lists. Images that only a captions file lists are left out.

    shiftbench read coco instances_train2017.json captions_train2017.json --images coco/ --out collections/coco
    """
    options = {"images": images, "unannotated": unannotated, "drop_missing": drop_missing, "name": name}
    read_and_save("coco", sources, out, options, overwrite, json, quiet)


@read.command("factors")
def read_factors(
    sources: Annotated[list[Path], typer.Argument(help="The published files; for smallnorb also their folder.")],
    out: Out,
    kind: Annotated[str, typer.Option(help="dsprites, shapes3d, mpi3d, smallnorb, camelyon17 or iwildcam.")],
    colours: Annotated[str | None, typer.Option(help="dsprites: one per image (default), or all three.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="dsprites: which image gets which colour.")] = None,
    objects: Annotated[str | None, typer.Option(help="mpi3d: simple (default) or complex.")] = None,
    camera: Annotated[str | None, typer.Option(help="smallnorb: left (default), right or both.")] = None,
    images: Images = None,
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Data sets of factors, as published: dSprites, Shapes3D, MPI3D, smallNORB, Camelyon17, iWildCam.

    shiftbench read factors dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz --kind dsprites --out collections/dsprites
    """
    options = {"kind": kind, "colours": colours, "seed": seed, "objects": objects, "camera": camera, "images": images,
               "drop_missing": drop_missing, "name": name}
    read_and_save("factors", sources, out, options, overwrite, json, quiet, bar=f"reading {kind}")


@read.command("folder")
def read_folder(
    source: Annotated[Path, typer.Argument(help="Folder that holds the folders of images.")],
    out: Out,
    levels: Annotated[str, typer.Option(help="What the levels of folders say, from the outside in, separated by "
                                        "commas; '-' skips one. Default: label, or split,label.")] = "",
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Images in folders per class, per split and class (ImageFolder), or any depth of folders, each level a factor.

    shiftbench read folder pacs --levels domain,label --out collections/pacs
    """
    options = {"levels": levels, "drop_missing": drop_missing, "name": name}
    read_and_save("folder", [source], out, options, overwrite, json, quiet)


@read.command("imagenet")
def read_imagenet(
    source: Annotated[Path, typer.Argument(help="Folder with train/ and val/, each with a folder per class.")],
    out: Out,
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """ImageNet as it is unpacked: a folder per split and class (wnid). The images stay where they are.

    shiftbench read imagenet /data/imagenet --out collections/imagenet
    """
    read_and_save("imagenet", [source], out, {"drop_missing": drop_missing, "name": name}, overwrite, json, quiet)


@read.command("gqa")
def read_gqa(
    sources: Sources,
    out: Out,
    images: Images = None,
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """GQA scene graphs, or Visual Genome's objects.json, attributes.json and image_data.json.

    shiftbench read gqa train_sceneGraphs.json val_sceneGraphs.json --images images/ --out collections/vg
    """
    options = {"images": images, "drop_missing": drop_missing, "name": name}
    read_and_save("gqa", sources, out, options, overwrite, json, quiet)


@read.command("hf")
def read_hf(
    source: Annotated[str, typer.Argument(help="Folder that `datasets` saved, folder of parquet shards, or a name of "
                                          "the hub.")],
    out: Out,
    id: Annotated[str | None, typer.Option("--id", help="Column with the name of each item; default: SPLIT/ROW.")
                  ] = None,
    label: Annotated[str, typer.Option(help="Column to predict.")] = "label",
    domain: Annotated[str | None, typer.Option(help="Column that moves between train and test.")] = None,
    split: Annotated[str | None, typer.Option(help="Column with the split; default: the splits of the data set.")
                     ] = None,
    image: Annotated[str | None, typer.Option(help="Column of images, if there are several.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder to write the images into; default: into --out.")] = None,
    text: Annotated[str | None, typer.Option(help="Column with the text of each item.")] = None,
    features: Annotated[str, typer.Option(help="Columns of numbers to train on, separated by commas.")] = "",
    rename: Annotated[list[str] | None, typer.Option(help="What a split is called here: --rename dev=val.")] = None,
    tags: Annotated[str, typer.Option(help="Columns of yes or no that become tags, separated by commas.")] = "",
    tags_in: Annotated[str | None, typer.Option(help="Column of lists of words: they become tags.")] = None,
    missing: Annotated[str, typer.Option(help="Words that mean that there is no value, separated by commas.")] = "",
    config: Annotated[str | None, typer.Option(help="Configuration of a data set on the hub.")] = None,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Data sets of Hugging Face: splits and columns become factors, class labels keep their names, images become files.

    shiftbench read hf beans --domain field --out collections/beans

    shiftbench read hf stanfordnlp/imdb --text text --rename unsupervised=unlabelled --out collections/imdb
    """
    options = {"id": id, "label": label, "domain": domain, "split": split, "image": image, "images": images,
               "text": text, "features": features, "rename": pairs(rename or [], "--rename", "dev=val"), "tags": tags,
               "tags_in": tags_in, "missing": missing, "config": config, "name": name}
    read_and_save("hf", [source], out, options, overwrite, json, quiet)


@read.command("metashift")
def read_metashift(
    sources: Sources,
    out: Out,
    contexts: Annotated[str, typer.Option(help="What the words in brackets are: object, attribute or auto.")] = "auto",
    images: Images = None,
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """MetaShift's published candidate-subset files. They are pickles: anything but plain sets and lists is refused.

    shiftbench read metashift attributes-candidate-subsets.pkl --out collections/metashift
    """
    options = {"images": images, "drop_missing": drop_missing, "name": name, "contexts": contexts}
    read_and_save("metashift", sources, out, options, overwrite, json, quiet)


@read.command("yolo")
def read_yolo(
    source: Annotated[Path, typer.Argument(help="Folder that holds labels/ and images/.")],
    out: Out,
    names: Annotated[Path | None, typer.Option(help="data.yaml, or a file with one class per line. Default: the reader "
                                               "looks for it.")] = None,
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """YOLO's text files of boxes or outlines: classes become tags with areas and boxes.

    shiftbench read yolo coco128 --names coco128/data.yaml --out collections/coco128
    """
    options = {"names": names, "drop_missing": drop_missing, "name": name}
    read_and_save("yolo", [source], out, options, overwrite, json, quiet)


@read.command("voc")
def read_voc(
    source: Annotated[Path, typer.Argument(help="Folder that holds Annotations/, or the XML files themselves.")],
    out: Out,
    images: Annotated[Path | None, typer.Option(help="Folder of the images; default: JPEGImages/ if it is there.")
                      ] = None,
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Pascal VOC's XML files, an image each: classes become tags with areas and boxes.

    shiftbench read voc VOCdevkit/VOC2012 --out collections/voc
    """
    options = {"images": images, "drop_missing": drop_missing, "name": name}
    read_and_save("voc", [source], out, options, overwrite, json, quiet)


@read.command("open_images")
def read_open_images(
    sources: Annotated[list[Path], typer.Argument(help="Files of boxes: validation-annotations-bbox.csv.")],
    out: Out,
    classes: Annotated[Path, typer.Option(help="class-descriptions-boxable.csv.")],
    images: Images = None,
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Open Images' tables of boxes: classes become tags with areas and boxes.

    shiftbench read open_images validation-annotations-bbox.csv --classes class-descriptions-boxable.csv --out oi
    """
    options = {"classes": classes, "images": images, "drop_missing": drop_missing, "name": name}
    read_and_save("open_images", sources, out, options, overwrite, json, quiet)


@read.command("waterbirds")
def read_waterbirds(
    source: Annotated[Path, typer.Argument(help="Folder with metadata.csv and the images, as published.")],
    out: Out,
    images: Annotated[Path | None, typer.Option(help="Folder of the images, if it is not the source.")] = None,
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Waterbirds as published: birds on land or water backgrounds, with the split of its makers.

    shiftbench read waterbirds waterbird_complete95_forest2water2 --out collections/waterbirds
    """
    options = {"images": images, "drop_missing": drop_missing, "name": name}
    read_and_save("waterbirds", [source], out, options, overwrite, json, quiet)


@read.command("wilds")
def read_wilds(
    dataset: Annotated[str, typer.Argument(help="iwildcam, camelyon17, rxrx1, molpcba, globalwheat, civilcomments, "
                                           "fmow, poverty, amazon, py150 or celebA.")],
    root: Annotated[Path, typer.Option(help="Folder that holds iwildcam_v2.0/ and the like, as WILDS unpacks them.")],
    out: Out,
    version: Annotated[str | None, typer.Option(help="Version to read; default: the newest in the folder.")] = None,
    images: Annotated[bool, typer.Option(help="Without images, only the tables must be there.")] = True,
    scheme: Annotated[str, typer.Option(
        help="Another split file of amazon: time, category_subpopulation, books_generalization, ….")] = "official",
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="Add WILDS 2's items without labels (iwildcam, "
                                             "camelyon17, civilcomments, poverty, fmow, amazon).")] = False,
    drop_missing: DropMissing = False,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """One of the ten data sets of WILDS, or its CelebA, from the folder where WILDS or `shiftbench download` put it.

    shiftbench read wilds iwildcam --root data --out collections/iwildcam

    shiftbench read wilds camelyon17 --unlabelled --root data --out collections/camelyon17-unlabelled
    """
    options = {"root": root, "version": version, "images": images, "scheme": scheme, "unlabelled": unlabelled,
               "drop_missing": drop_missing, "name": name}
    read_and_save("wilds", [dataset], out, options, overwrite, json, quiet)


@read.command("table")
def read_table(
    source: Annotated[Path, typer.Argument(help="One row per item: .csv, .tsv, .txt, .jsonl (also .gz), .parquet, "
                                     ".arrow, .feather or .xlsx.")],
    out: Out,
    id: Annotated[str, typer.Option("--id", help="Column with the name of each item.")],
    label: Annotated[str, typer.Option(help="Column to predict.")],
    domain: Annotated[str | None, typer.Option(help="Column that moves between train and test.")] = None,
    split: Annotated[str | None, typer.Option(help="Column that says train, id_val, val, id_test or test.")] = None,
    image: Annotated[str | None, typer.Option(help="Column with the names of image files.")] = None,
    images: Annotated[Path | None, typer.Option(help="Folder of the image files; default: that of the table.")] = None,
    drop_missing: DropMissing = False,
    text: Annotated[str | None, typer.Option(help="Column with the text of each item.")] = None,
    features: Annotated[str, typer.Option(help="Columns of numbers to train on, separated by commas.")] = "",
    rename: Annotated[list[str] | None, typer.Option(help="What a split is called here: --rename valid=val.")] = None,
    tags: Annotated[str, typer.Option(help="Columns of yes or no (1 or 0, 1 or -1) that become tags, separated by "
                                      "commas.")] = "",
    tags_in: Annotated[str | None, typer.Option(help="Column of several words each, or of lists: they become "
                                                "tags.")] = None,
    tags_between: Annotated[str | None, typer.Option(help="Separator of the words of --tags-in; default: ;.")] = None,
    missing: Annotated[str, typer.Option(help="Words that mean that there is no value, separated by commas: nan,NA.")
                       ] = "",
    between: Annotated[str | None, typer.Option(help="Separator of values in a CSV file; default: a comma. Where the "
                                                "file needs none, that of the words of --tags-in.")] = None,
    name: Name = None,
    overwrite: Overwrite = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """A table of your own: its columns become label, domain, split, images, text, features, tags and further factors.

    shiftbench read table scans.csv --id scan --label tumor --domain hospital --split part --out collections/scans

    shiftbench read table faces.csv --id file --label Blond --tags Male,Smiling,Hat --out collections/faces
    """
    options = {"id": id, "label": label, "domain": domain, "split": split, "image": image, "images": images,
               "drop_missing": drop_missing, "text": text, "between": between, "name": name,
               "features": [feature.strip() for feature in features.split(",") if feature.strip()],
               "rename": pairs(rename or [], "--rename", "valid=val"), "tags": tags, "tags_in": tags_in,
               "tags_between": tags_between, "missing": missing}
    read_and_save("table", [source], out, options, overwrite, json, quiet)


for command in read.registered_commands:
    assert command.callback is not None
    command.callback = importing(command.callback)
