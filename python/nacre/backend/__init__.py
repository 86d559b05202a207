"""ONNX's backend interface: prepare, run_model, run_node, supports_device. Needs the package onnx."""
from nacre.backend.backend import (NacreBackend, NacreBackendRep, is_compatible, is_opset_supported, prepare, run,
                                   run_model, run_node, supports_device)

__all__ = ["NacreBackend", "NacreBackendRep", "is_compatible", "is_opset_supported", "prepare", "run", "run_model",
           "run_node", "supports_device"]
