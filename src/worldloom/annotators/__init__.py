"""Look at pixels and poses and measure; nothing here decides."""
