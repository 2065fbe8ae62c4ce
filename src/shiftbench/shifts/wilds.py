"""The ten data sets of WILDS as benchmarks: what is predicted, what moves, which groups and which number count."""

from shiftbench.shifts.given import Given

IDENTITIES = "male+female+LGBTQ+christian+muslim+other_religions+black+white,label"
"""CivilComments is judged by sixteen groups that overlap: who is mentioned × the label."""

WILDS = {
    "iwildcam": Given(domain="location", headline="macro_f1"),
    "camelyon17": Given(domain="hospital", score_by=("slide",), headline="accuracy"),
    "rxrx1": Given(domain="experiment", score_by=("cell_type",), headline="accuracy"),
    "molpcba": Given("y*", domain="scaffold", ignore=("unused",), target="tasks"),
    "globalwheat": Given("wheat_head", domain="session", target="boxes"),
    "civilcomments": Given(domain="black", groups=("black",), score_by=(IDENTITIES,),
                           headline=f"worst_group_accuracy[{IDENTITIES}]"),
    "fmow": Given(domain="year", groups=("year",), ignore=("unused",), score_by=("year", "region!Other"),
                  headline="worst_group_accuracy[region!Other]"),
    **{f"poverty-{fold}": Given("label", split=f"split_{fold}", domain="country", groups=("urban",), target="number")
       for fold in "ABCDE"},
    "amazon": Given(domain="user", score_by=("user",), headline="tenth_percentile_accuracy[user]"),
    "py150": Given(domain="repo", target="tokens"),
}
"""Each on the collection that `shiftbench read wilds NAME` makes: build wilds --only NAME --collection FOLDER.

Groups are those that Group DRO is trained on in the paper; where it takes the domain (all but CivilComments, FMoW and
PovertyMap) the group is a cell of label × domain, and `group_dro` has `by = "domain"`.
"""
