"""Stage `video`: one row a file that is a video, one failure a file that is not."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

from worldloom.dataengine.stage import Alive, Context, Inputs, Params
from worldloom.schemas import Drop, Video, ids

POSE_FILE = ".poses.json"


class VideoParams(Params):
    """How files are read.

    backend: the decoder wanted; each row says which one its file got, and a note why it is another. decord and
        torchcodec (worldloom[decode]) take only plain H.264 files of which they count the frames that we count.
    """
    backend: Literal["pyav", "decord", "torchcodec"] = "pyav"


class VideoStage:
    """Facts about each listed file, by its packets, or by decoding it once."""
    name: ClassVar[str] = "video"
    version: ClassVar[int] = 2
    reads: ClassVar[tuple[str, ...]] = ("file",)
    optional: ClassVar[tuple[str, ...]] = ()
    writes: ClassVar[type] = Video
    budget_s: ClassVar[float] = 300.0
    Params = VideoParams

    def __init__(self, params: VideoParams | None = None) -> None:
        self.params = params or VideoParams()

    def setup(self, context: Context) -> None:
        from worldloom.dataengine.video.backends import need

        self.context = context
        need(self.params.backend)

    def process(self, item: Inputs) -> Iterator[Any]:
        """The Video row of {"file": FileEntry}. Raises DecodeError where the file cannot be used."""
        file = item["file"]
        if file.name.endswith(POSE_FILE):
            yield Drop(stage=self.name, row_key=file.name, reason="no_video",
                       detail=f"{file.name}: a camera path that came without pictures")
        else:
            yield (yield from video_row(file, self.params.backend))


def video_row(entry: Any, backend: str) -> Generator[Alive, None, Video]:
    """Read a listed file and return what it is; yields ALIVE now and then where it must be decoded for that.

    Raises:
        DecodeError: not a video, no picture stream, or not one frame can be decoded.
    """
    from worldloom.dataengine.video.backends import choose
    from worldloom.dataengine.video.probe import probing

    path = Path(entry.path)
    found = yield from probing(path)
    decoder, why_other = choose(backend, path, found)
    return Video(
        video_id=entry.sha256 or ids.file_sha256(path), source_id=entry.source_id, name=entry.name,
        bytes=path.stat().st_size, container=found.container, codec=found.codec, pix_fmt=found.pix_fmt,
        stream_index=found.stream_index, width=found.width, height=found.height,
        rotation_deg=found.geometry.rotation_deg, sample_aspect_ratio=found.geometry.sample_aspect_ratio,
        num_frames=found.num_frames, header_frames=found.header_frames, start_s=found.start_s,
        duration_s=found.duration_s, fps=found.timing.fps, is_variable_rate=found.timing.is_variable_rate,
        is_interlaced=found.is_interlaced, backend=decoder, notes=[*found.notes, *([why_other] if why_other else [])],
        sidecar=entry.sidecar, about=entry.about,
    )
