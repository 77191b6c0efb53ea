"""Structured captions: what a captioner sees and gives back, the gate it passes, and the text a model reads."""

from worldloom.annotators.captions.interface import KINDS, Captioner, Evidence, RecordedEvent, Truth
from worldloom.annotators.captions.render import event_at, render
from worldloom.annotators.captions.validate import camera_phrases, parse_answer, validate

__all__ = ["KINDS", "Captioner", "Evidence", "RecordedEvent", "Truth", "camera_phrases", "event_at", "parse_answer",
           "render", "validate"]
