"""The demo: the whole line from recorded gameplay to an evaluated model, with one page at the end."""
