"""Texts to vectors: sentence encoders, and the captions of a collection averaged per item. numpy alone, no torch."""

from shiftbench.sentences.embed import embed_texts as embed_texts
from shiftbench.sentences.encoders import DEFAULT as DEFAULT
from shiftbench.sentences.encoders import Encoder as Encoder
from shiftbench.sentences.encoders import encoder as encoder
