"""One round of training, three ways: the specification in torch, and kernels that are tested against it."""
