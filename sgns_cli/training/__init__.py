"""Token ids in, matrices out: draws, kernels, the loop, checkpoints."""
