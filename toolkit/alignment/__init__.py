"""Token ids to bytes, bytes to segments, spans to tokens. Imports neither MLX nor any tokenizer's package."""

from toolkit.alignment.align import TokenRange, align, byte_shares, char_to_byte_offsets, token_range
from toolkit.alignment.segments import StreamingSegmenter, segment_pieces
from toolkit.alignment.stops import StopMatcher, TextStream
from toolkit.alignment.token_bytes import TokenBytes

__all__ = [
    "StopMatcher",
    "StreamingSegmenter",
    "TextStream",
    "TokenBytes",
    "TokenRange",
    "align",
    "byte_shares",
    "char_to_byte_offsets",
    "segment_pieces",
    "token_range",
]
