"""Molecular graphs: the graph isomorphism network with a virtual node, in plain torch."""

from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shiftbench.core.errors import ShiftBenchError
from shiftbench.models.net import Dropout, Net, model

ATOM_SIZES = (119, 5, 12, 12, 10, 6, 6, 2, 2)
"""The numbers of values of OGB's atom features: element, chirality, degree, charge, hydrogens, radical electrons,
hybridisation, aromatic or not, in a ring or not."""
BOND_SIZES = (5, 6, 2)
"""The same for bonds: type, stereo configuration, conjugated or not."""
ATOM, EDGE = 0, 1
LINE = 1 + len(ATOM_SIZES)


class Graph(NamedTuple):
    """The molecules of a batch as one graph without padding; atoms are numbered through."""

    atoms: Tensor  # atoms × 9 features
    molecule: Tensor  # of each atom
    count: Tensor  # atoms of each molecule
    source: Tensor  # the atom where each edge begins
    target: Tensor  # and where it ends
    bond: Tensor  # the number of its three features among all 60 cases


def unpacked(x: Tensor) -> Graph:
    """From lines, N × lines × 10: an atom is [0, f0 … f8], an edge [1, source, target, b0, b1, b2, …], all else is
    padding. Source and target count the atoms of their own molecule. A bond is two edges, one each way."""
    if x.ndim != 3 or x.shape[2] != LINE:
        raise ShiftBenchError(f"Graphs are whole numbers, molecules × lines × {LINE}, but got an array of shape "
                              f"{tuple(x.shape)}. `graph_lines` of the reader makes them.")
    is_atom = x[..., 0] == ATOM
    molecule, atom_line = is_atom.nonzero(as_tuple=True)
    count = is_atom.sum(dim=1)
    owner, edge_line = (x[..., 0] == EDGE).nonzero(as_tuple=True)
    edges = x[owner, edge_line].long()
    first = (count.cumsum(dim=0) - count).index_select(0, owner)
    bond = (edges[:, 3] * BOND_SIZES[1] + edges[:, 4]) * BOND_SIZES[2] + edges[:, 5]
    return Graph(x[molecule, atom_line, 1:].long(), molecule, count, edges[:, 1] + first, edges[:, 2] + first, bond)


class Convolution(nn.Module):
    """h_v  <-  MLP((1 + eps) h_v  +  sum over edges u -> v of relu(h_u + e_uv))

    e_uv is the sum of a vector for each of the bond's features; eps is learnt.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.bonds = _tables(BOND_SIZES, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.BatchNorm1d(2 * width), nn.ReLU(),
                                 nn.Linear(2 * width, width))

    def forward(self, h: Tensor, graph: Graph) -> Tensor:
        a, b, c = (table.weight for table in self.bonds)
        bonds = (a[:, None, None] + b[:, None] + c).flatten(0, 2)  # 60 cases, for thousands of edges
        message = F.relu(h.index_select(0, graph.source) + bonds.index_select(0, graph.bond))
        return self.mlp((1 + self.eps) * h + _added(message, graph.target, len(h)))


class Layer(nn.Module):
    """A convolution with batch norm, before which every atom hears its molecule's virtual node, and the virtual node's
    own update; the last layer has neither a relu nor an update.

        h_v <- h_v + z_m,    h'_v = dropout(relu(BN(conv(h)_v))),    z_m <- dropout(MLP(z_m + sum over v in m of h_v))
    """

    def __init__(self, width: int, rate: float, last: bool) -> None:
        super().__init__()
        self.conv, self.norm, self.dropout = Convolution(width), nn.BatchNorm1d(width), Dropout(rate)
        self.last = last
        self.virtual = nn.Sequential() if last else nn.Sequential(
            nn.Linear(width, 2 * width), nn.BatchNorm1d(2 * width), nn.ReLU(),
            nn.Linear(2 * width, width), nn.BatchNorm1d(width), nn.ReLU(), Dropout(rate))

    def forward(self, h: Tensor, z: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
        h = h + z.index_select(0, graph.molecule)
        new = self.norm(self.conv(h, graph))
        if self.last:
            return self.dropout(new), z
        return self.dropout(F.relu(new)), self.virtual(z + _added(h, graph.molecule, len(z)))


class Molecules(nn.Module):
    """The mean of the last layer's features over a molecule's atoms."""

    def __init__(self, layers: int, width: int, rate: float) -> None:
        super().__init__()
        self.atoms = _tables(ATOM_SIZES, width)
        self.virtual = nn.Parameter(torch.zeros(1, width))
        self.layers = nn.ModuleList(Layer(width, rate, number == layers - 1) for number in range(layers))

    def forward(self, x: Tensor) -> Tensor:
        graph = unpacked(x)
        h = self.atoms[0](graph.atoms[:, 0])
        for table, feature in zip(self.atoms[1:], graph.atoms[:, 1:].unbind(dim=1), strict=True):
            h = h + table(feature)
        z = self.virtual.expand(len(x), -1)
        for layer in self.layers:
            h, z = layer(h, z, graph)
        return _added(h, graph.molecule, len(x)) / graph.count.clamp(min=1)[:, None]


class _Graphs(Net):
    layers: ClassVar[int]
    units: ClassVar[int]
    rate: ClassVar[float]

    def __init__(self, n_classes: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.features = Molecules(self.layers, self.units, self.rate)
        self.head = nn.Linear(self.units, n_classes)


@model("gin-virtual")
class GINVirtual(_Graphs):
    """GIN (Xu et al., 2019) with a virtual node (Gilmer et al., 2017), as OGB and WILDS train it: five layers, 300
    features, dropout 0.5, embeddings from Glorot's uniform start; 3.37 million parameters with 128 tasks.

    Our reading, where codes differ. There are five kinds of chirality, as in OGB's present code; its published count of
    3,374,533 parameters has four, and so 300 numbers less. The mean of a molecule without atoms is 0. Dropout draws
    its masks from the net's own buffers. Atoms are summed with `index_add`, which torch does in a fixed order where it
    is asked to repeat.
    """

    layers: ClassVar[int] = 5
    units: ClassVar[int] = 300
    rate: ClassVar[float] = 0.5


@model("gin-small")
class GINSmall(_Graphs):
    """The same with two layers, 32 features and no dropout, for small machines; 20 thousand parameters."""

    layers: ClassVar[int] = 2
    units: ClassVar[int] = 32
    rate: ClassVar[float] = 0.0


def _tables(sizes: tuple[int, ...], width: int) -> nn.ModuleList:
    tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)
    for table in tables:
        nn.init.xavier_uniform_(table.weight)
    return tables


def _added(values: Tensor, index: Tensor, n: int) -> Tensor:
    """Sum the rows of `values` by index: row i is the sum of those with index i."""
    return values.new_zeros(n, values.shape[1]).index_add(0, index, values)
