"""Codecs between documents and tags, one for each kind of annotation."""

from .codec import Codec
from .entities import EntityCodec
from .overlapping import OverlappingCodec
from .span_group import SpanGroupCodec
from .tags import TagCodec
from .words import WordCodec

__all__ = ["Codec", "EntityCodec", "OverlappingCodec", "SpanGroupCodec", "TagCodec", "WordCodec"]
