"""The array types of columns."""

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
"""Offsets, timestamps, and positions in a buffer."""
Flags = NDArray[np.bool_]
Headers = NDArray[np.void]
"""Rows of `window.HEADER_LAYOUT`."""
Unsigned = NDArray[np.uint64]
"""Bits of varints and hashes."""
