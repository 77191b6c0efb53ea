"""Scores of a trained model: does it follow its commands, on clips it never saw."""
