"""Where onnxruntime keeps its native names; the same names are found here."""
from nacre.capi import (_pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state,
                        onnxruntime_validation)
