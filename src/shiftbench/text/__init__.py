"""Texts to vectors: sentence encoders, and a collection's captions averaged per item, with numpy and without torch."""

from shiftbench.text.encoders import DEFAULT as DEFAULT
from shiftbench.text.encoders import Encoder as Encoder
from shiftbench.text.encoders import encoder as encoder
from shiftbench.text.vectors import embed_texts as embed_texts
