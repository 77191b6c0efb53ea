"""H.264 encoders of canonical clips: x264, whose bytes come out the same again, and hardware where it encodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from worldloom.schemas import ConfigError

if TYPE_CHECKING:
    import av

KEYFRAME_INTERVAL = 48
CRF = 18
_NO_B_FRAMES = {"bf": "0", "g": str(KEYFRAME_INTERVAL)}


@dataclass(frozen=True)
class Encoder:
    """Name in FFmpeg, options, pixel format it takes, and bits a pixel where it knows no constant quality."""
    codec: str
    options: dict[str, str] = field(default_factory=dict)
    pix_fmt: str = "yuv420p"
    bits_per_pixel: float | None = None


X264 = Encoder("libx264", {"preset": "veryfast", "crf": str(CRF), **_NO_B_FRAMES, "mbtree": "0"})
"""Without macroblock trees: with them one clip in a hundred came out with other bytes in a process used before."""

HARDWARE = {
    "nvenc": Encoder("h264_nvenc", {"preset": "p4", "rc": "constqp", "qp": "20", **_NO_B_FRAMES}),
    "videotoolbox": Encoder("h264_videotoolbox", {**_NO_B_FRAMES, "realtime": "0"}, bits_per_pixel=0.25),
    "qsv": Encoder("h264_qsv", {"preset": "medium", "global_quality": "20", **_NO_B_FRAMES}, pix_fmt="nv12"),
    "amf": Encoder("h264_amf", {"quality": "balanced", "rc": "cqp", "qp_i": "20", "qp_p": "20", **_NO_B_FRAMES}),
}
"""In the order `auto` tries them. VAAPI takes only pictures that lie on the device, which PyAV cannot put there."""


def find_encoder(wanted: str) -> Encoder:
    """The encoder of that name; "auto" is the first hardware that encodes a picture here, else x264.

    Raises:
        ConfigError: the wanted hardware does not encode here.
    """
    if wanted == "x264":
        return X264
    if wanted == "auto":
        return next((encoder for name, encoder in HARDWARE.items() if refusal(name) is None), X264)
    if reason := refusal(wanted):
        raise ConfigError(f"encoder {wanted} does not encode here: {reason}; use auto or x264")
    return HARDWARE[wanted]


@cache
def refusal(name: str) -> str | None:
    """Why this hardware does not encode on this machine, by encoding two grey pictures; None where it does."""
    import av

    encoder = HARDWARE[name]
    if encoder.codec not in av.codecs_available:
        return f"this FFmpeg has no {encoder.codec}"
    try:
        context = av.codec.CodecContext.create(encoder.codec, "w")
        assert isinstance(context, av.VideoCodecContext)
        set_up(context, encoder, 320, 192, Fraction(24))
        grey = av.VideoFrame(320, 192, encoder.pix_fmt)
        for plane in grey.planes:
            plane.update(b"\x80" * plane.buffer_size)
        packets = []
        for number in range(2):
            grey.pts, grey.time_base = number, Fraction(1, 24)
            packets += context.encode(grey)
        packets += context.encode(None)
    except (av.error.FFmpegError, ValueError, OSError) as error:
        return getattr(error, "strerror", None) or " ".join(str(error).split())[:160]
    return None if len(packets) == 2 else f"{len(packets)} packets came for 2 pictures"


def set_up(context: av.VideoCodecContext, encoder: Encoder, width: int, height: int, rate: Fraction) -> None:
    """Size, rate and options of an encoder that is not open yet: one thread."""
    context.options = dict(encoder.options)
    context.width, context.height, context.pix_fmt = width, height, encoder.pix_fmt
    context.time_base, context.framerate, context.thread_count = 1 / rate, rate, 1
    if encoder.bits_per_pixel:
        context.bit_rate = int(encoder.bits_per_pixel * width * height * rate)
