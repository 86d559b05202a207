"""NativeSession: a session under the names and with the order of arguments of onnxruntime's native class, which scripts
reach as `session._sess`."""
from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from nacre._binding import SessionIOBinding
from nacre._options import RunOptions
from nacre._value import OrtValue, OrtValueVector


class NativeSession:
    """What `session._sess` gives. It is the session itself, called otherwise."""

    def __init__(self, session: Any) -> None:
        self._of = session

    inputs_meta = property(lambda self: self._of.get_inputs())
    outputs_meta = property(lambda self: self._of.get_outputs())
    overridable_initializers = property(lambda self: self._of.get_overridable_initializers())
    model_meta = property(lambda self: self._of.get_modelmeta())
    session_options = property(lambda self: self._of.get_session_options())
    input_meminfos = property(lambda self: self._of.get_input_memory_infos())
    output_meminfos = property(lambda self: self._of.get_output_memory_infos())
    input_epdevices = property(lambda self: self._of.get_input_epdevices())

    def run(self, output_names: Sequence[str], input_feed: Mapping[str, Any],
            run_options: Optional[RunOptions] = None) -> List[Any]:
        return list(self._of.run(output_names, input_feed, run_options))

    def run_with_ort_values(self, feeds: Dict[str, OrtValue], output_names: Sequence[str],
                            run_options: Optional[RunOptions] = None) -> OrtValueVector:
        return OrtValueVector(v._ortvalue for v in self._of.run_with_ort_values(output_names, feeds, run_options))

    def run_with_iobinding(self, io_binding: SessionIOBinding, run_options: Optional[RunOptions] = None) -> None:
        self._of.run_with_iobinding(io_binding, run_options)

    def __getattr__(self, name: str) -> Any:
        """What has the same name and arguments in both classes."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._of, name)
