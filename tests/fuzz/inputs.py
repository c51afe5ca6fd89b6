"""Inputs for a target by hypothesis: any bytes, and its seeds with some of their bytes changed."""

from hypothesis import strategies as st


def inputs_like(seeds: list[bytes]) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=200) | st.sampled_from(seeds) | st.sampled_from(seeds).flatmap(_changed)


def _changed(seed: bytes) -> st.SearchStrategy[bytes]:
    places = st.integers(0, len(seed))
    return st.builds(
        lambda at, left_out, new: seed[:at] + new + seed[at + left_out :],
        places,
        st.integers(0, 20),
        st.binary(max_size=12),
    )
