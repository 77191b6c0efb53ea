"""Opening untrusted files: one picture stream, no network, no playlists, no extra threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import av
from av.container import InputContainer
from av.stream import Disposition
from av.video.stream import VideoStream

from worldloom.schemas import DecodeError

FORMATS = (
    "mov,matroska,webm,avi,flv,mpeg,mpegts,mpegvideo,gif,ivf,asf,ogg,m4v,h264,hevc,av1,obu,rm,mxf,nut,dv,yuv4mpegpipe,"
    "wav,mp3,aac,flac"
)
"""Demuxers that may open a file. Playlists (concat, HLS) are absent: they would read other files."""


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def video_streams(container: InputContainer) -> list[VideoStream]:
    """Picture streams that are a film, in file order: covers and thumbnails are left out."""
    still = Disposition.attached_pic | Disposition.timed_thumbnails
    return [stream for stream in container.streams.video if not stream.disposition & still]


def main_stream(container: InputContainer, name: str) -> VideoStream:
    """The first picture stream of a file, set to decode on one thread.

    Raises:
        DecodeError: no picture stream, or no decoder for it.
    """
    streams = video_streams(container)
    if not streams:
        kinds = ", ".join(sorted({stream.type for stream in container.streams}))
        raise DecodeError(f"{name}: no video stream (holds {kinds or 'nothing'})")
    stream = streams[0]
    if stream.codec_context is None:
        raise DecodeError(f"{name}: no decoder for its video stream")
    stream.codec_context.thread_count = 1
    stream.thread_type = "NONE"
    return stream


def packet_pts(container: InputContainer, stream: VideoStream) -> Iterator[int]:
    """Presentation times of the packets of a stream, in its time base, as far as the file can be read."""
    packets = container.demux(stream)
    while True:
        try:
            packet = next(packets)
        except (StopIteration, av.error.FFmpegError):
            return
        if packet.size and packet.pts is not None:
            yield packet.pts


def _reason(error: BaseException) -> str:
    if isinstance(error, av.error.ArgumentError):
        return "no video format that is accepted"
    return getattr(error, "strerror", None) or one_line(error)


@contextmanager
def opened(path: Path) -> Iterator[InputContainer]:
    """A file as FFmpeg reads it.

    Raises:
        DecodeError: the file is missing, empty, or not a video.
    """
    name = Path(path).name
    if not os.path.isfile(path):
        raise DecodeError(f"{name}: no such file")
    if os.path.getsize(path) == 0:
        raise DecodeError(f"{name}: empty file")
    try:
        container = av.open(
            os.path.abspath(path), metadata_errors="replace",
            options={"format_whitelist": FORMATS, "protocol_whitelist": "file"},
        )
    except (av.error.FFmpegError, ValueError, OSError) as error:
        raise DecodeError(f"{name}: not a readable video: {_reason(error)}") from error
    with container:
        yield container


@contextmanager
def open_video(path: Path) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Container and chosen stream of a file.

    Raises:
        DecodeError: the file is missing, empty, not a video, or has no picture stream.
    """
    with opened(path) as container:
        yield container, main_stream(container, Path(path).name)
