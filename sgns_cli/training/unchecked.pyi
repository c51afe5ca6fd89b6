# What unchecked.py offers, as a type checker sees it.
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

def item(array: NDArray[Any], index: SupportsIndex) -> Any: ...  # noqa: ANN401 - a number of the array's kind
def put(array: NDArray[Any], index: SupportsIndex, value: float | np.generic) -> None: ...
def pointer(context: Any, builder: Any, signature: Any, arguments: Any) -> Any: ...  # noqa: ANN401 - Numba's
