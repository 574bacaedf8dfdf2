"""What was already computed: keys and values of one sequence, and which sequences are kept for re-use."""
