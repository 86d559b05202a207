"""What the tests of exported files have in common: results held against PyTorch's."""
import numpy as np

from tolerances import close


def wrong(results, want):
    """What of the results is not PyTorch's, in words, or None."""
    if len(results) != len(want):
        return f"{len(results)} results for {len(want)}"
    for k, (a, b) in enumerate(zip(results, want)):
        a, b = np.asarray(a), b.detach().numpy()
        if a.dtype != b.dtype or a.shape != b.shape:
            return f"result {k}: {a.dtype}{list(a.shape)} for {b.dtype}{list(b.shape)}"
        try:
            close(a, b, "torch_operators")
        except AssertionError as e:
            return f"result {k}: {e}"
    return None
