"""Where onnxruntime defines its Python classes."""
from nacre._absent import AdapterFormat, ModelCompiler, SparseTensor
from nacre._binding import IOBinding
from nacre._device import OrtDevice
from nacre._enums import OrtDeviceVendorId
from nacre._session import InferenceSession, Session
from nacre._value import OrtValue, copy_tensors
