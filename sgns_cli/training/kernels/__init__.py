"""One round of training, twice: the specification in torch, and the CPU kernel that is tested against it."""
