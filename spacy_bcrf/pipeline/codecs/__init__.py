"""Codecs between documents and tags, one for each kind of annotation."""

from .codec import Codec
from .entities import EntityCodec
from .span_group import SpanGroupCodec
from .tags import TagCodec
from .words import WordCodec

__all__ = ["Codec", "EntityCodec", "SpanGroupCodec", "TagCodec", "WordCodec"]
