"""Kernels compiled at first use, for processors with AVX2; no compiler has to be there."""
