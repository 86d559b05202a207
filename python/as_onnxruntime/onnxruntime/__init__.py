"""The import name onnxruntime, served by nacre."""
import sys

from nacre import as_onnxruntime

as_onnxruntime.become(sys.modules[__name__])
