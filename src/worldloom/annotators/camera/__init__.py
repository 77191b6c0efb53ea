"""The camera of a clip: given by its source, or found from the pixels."""
