"""Where onnxruntime keeps what prepare() gives."""
from nacre.backend.backend import NacreBackendRep as OnnxRuntimeBackendRep
