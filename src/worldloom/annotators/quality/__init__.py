"""Numbers measured on the pictures of a clip; policies judge them."""
