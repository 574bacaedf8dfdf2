"""The pages of the side panel: one file each, found by walking this folder."""
