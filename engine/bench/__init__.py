"""How fast a model file runs here, and how well, beside llama.cpp: `python -m engine bench`.

Both engines run the same measures over the same tokens, in turns: ours in this process, llama.cpp in one of
its own that is stopped while it isn't asked.
"""
