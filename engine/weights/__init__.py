"""Model files: named tensors and the typed facts about them."""
