"""Where onnxruntime defines its Python classes."""
from nacre._compile import ModelCompiler
from nacre._adapter import AdapterFormat
from nacre._binding import IOBinding
from nacre._device import (OrtDevice, check_and_normalize_provider_args, get_ort_device_type,
                           get_vendor_id_for_device_type)
from nacre._enums import OrtDeviceVendorId
from nacre._session import InferenceSession, Session
from nacre._sparse import SparseTensor
from nacre._value import OrtValue, copy_tensors
