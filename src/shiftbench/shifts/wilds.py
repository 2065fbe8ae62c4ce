"""The ten data sets of WILDS as benchmarks: what is predicted, what moves, which groups and which number count."""

from shiftbench.readers.wilds_texts import IDENTITIES
from shiftbench.shifts.given import Given

SIXTEEN = "+".join(IDENTITIES) + ",label"
"""CivilComments is judged by sixteen groups that overlap: who is mentioned × the label."""

Y = ("y",)
"""The label as WILDS numbers it, by which its prediction files are read."""

WILDS = {
    "iwildcam": Given(keep=Y, domain="location", headline="macro_f1"),
    "camelyon17": Given(keep=Y, domain="hospital", score_by=("slide",), headline="accuracy"),
    "rxrx1": Given(keep=Y, domain="experiment", score_by=("cell_type",), headline="accuracy"),
    "molpcba": Given("y*", domain="scaffold", ignore=("unused",), target="tasks"),
    "globalwheat": Given("wheat_head", domain="session", target="boxes"),
    "civilcomments": Given(keep=Y, domain="black", groups=("black",), score_by=(SIXTEEN,),
                           headline=f"worst_group_accuracy[{SIXTEEN}]"),
    "fmow": Given(keep=Y, domain="year", ignore=("unused",), score_by=("year", "region!Other"),
                  headline="worst_group_accuracy[region!Other]"),
    **{f"poverty-{fold}": Given("label", split=f"split_{fold}", domain="country", groups=("urban",), target="number")
       for fold in "ABCDE"},
    "amazon": Given(keep=Y, domain="user", score_by=("user",), headline="tenth_percentile_accuracy[user]"),
    "py150": Given(domain="repo", target="tokens"),
}
"""Each on the collection that `shiftbench read wilds NAME` makes: build wilds --only NAME --collection FOLDER.

Group DRO takes the domain for its groups (`by = "domain"`), in CivilComments the cells of black × label. PovertyMap's
groups are urban and rural, by which it is scored.
"""
