"""A model around a context that Qualcomm's tools have compiled: one EPContext, with QuantizeLinear and DequantizeLinear
around it where floats are wanted. onnxruntime with Qualcomm's provider runs it; Nacre refuses EPContext by name.

    python -m nacre.tools.qnn.gen_qnn_ctx_onnx_model -b CONTEXT.bin -q MODEL.json
"""
from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Dict, List, Optional

from onnx import TensorProto, helper

from nacre._files import save_model
from nacre.tools.qnn import _tensors


class QnnTensorStruct:
    def __init__(self, name: str = "", onnx_data_type: int = TensorProto.FLOAT, is_quantized: bool = False,
                 scale: float = 0.0, offset: int = 0, dim: Optional[List[int]] = None, id: Any = None) -> None:
        self.name, self.onnx_data_type, self.is_quantized = name, onnx_data_type, is_quantized
        self.scale, self.offset, self.dim, self.id = scale, offset, dim or [], id


Tensors = Dict[str, QnnTensorStruct]


def is_quantized_data_type(qnn_data_type: Any, is_converter_json: bool) -> bool:
    return _tensors.is_quantized(qnn_data_type)


def qnn_data_type_to_onnx_data_type(qnn_data_type: Any, is_converter_json: bool) -> int:
    return _tensors.onnx_type(qnn_data_type)


def _both(inputs: Tensors, outputs: Tensors) -> None:
    if not inputs or not outputs:
        raise ValueError(f"Qualcomm's file tells of {len(inputs)} inputs and {len(outputs)} outputs, expected one of "
                         "each at least")


def parse_qnn_converter_json_file(qnn_convert_json: Any, qnn_input_tensor_dic: Tensors,
                                  qnn_output_tensor_dic: Tensors) -> None:
    """Adds inputs (type 0) and outputs (type 1) of a converter's file. Offsets are zero points with another sign."""
    for name, told in qnn_convert_json["graph"]["tensors"].items():
        _tensors.need(told, "type", "data_type", "dims", "id", "quant_params")
        if told["type"] not in (0, 1):
            continue
        kind, codes = told["data_type"], told["quant_params"]
        made = QnnTensorStruct(name, _tensors.onnx_type(kind), _tensors.is_quantized(kind), dim=told["dims"],
                               id=told["id"])
        if codes["definition"] == 1 and codes["encoding"] == 0:
            made.scale, made.offset = codes["scale_offset"]["scale"], -codes["scale_offset"]["offset"]
        (qnn_output_tensor_dic if told["type"] else qnn_input_tensor_dic)[name] = made
    _both(qnn_input_tensor_dic, qnn_output_tensor_dic)


def parse_qnn_graph(qnn_graph: Any, qnn_input_tensor_dic: Tensors, qnn_output_tensor_dic: Tensors) -> str:
    """The same of what the tools tell of a context; gives the graph's name. Tensors are numbered as they come."""
    for key, into in (("graphInputs", qnn_input_tensor_dic), ("graphOutputs", qnn_output_tensor_dic)):
        for i, entry in enumerate(qnn_graph["info"][key]):
            told = entry["info"]
            kind, codes = told["dataType"], told["quantizeParams"]
            made = into[told["name"]] = QnnTensorStruct(told["name"], _tensors.onnx_type(kind),
                                                        _tensors.is_quantized(kind), dim=told["dimensions"], id=i)
            if (codes["definition"], codes["quantizationEncoding"]) == (
                    "QNN_DEFINITION_DEFINED", "QNN_QUANTIZATION_ENCODING_SCALE_OFFSET"):
                made.scale, made.offset = codes["scaleOffset"]["scale"], -codes["scaleOffset"]["offset"]
    _both(qnn_input_tensor_dic, qnn_output_tensor_dic)
    return str(qnn_graph["info"]["graphName"])


def generate_wrapper_onnx_file(grap_name: str, model_file_name: str, qnn_input_tensor_dic: Tensors,
                               qnn_output_tensor_dic: Tensors, disable_embed_mode: bool, qnn_ctx_file: str,
                               quantized_IO: bool, qnn_sdk_version: str = "unknown") -> None:
    """Writes the model. disable_embed_mode: it names the context's file instead of holding it. quantized_IO: codes go
    in and come out."""
    if not disable_embed_mode and not Path(qnn_ctx_file).is_file():
        raise FileNotFoundError(f"{qnn_ctx_file} is not there: it is the context that Qualcomm's tools compile")
    nodes, weights, inside, rims = [], [], [], []
    for op, tensors in (("QuantizeLinear", qnn_input_tensor_dic), ("DequantizeLinear", qnn_output_tensor_dic)):
        rim = []
        for t in sorted(tensors.values(), key=lambda t: t.id):
            plain = helper.make_tensor_value_info(t.name, t.onnx_data_type, t.dim)
            if not t.is_quantized or quantized_IO:
                rim.append(plain)
                continue
            outer, scale, zero = t.name + "_dq", t.name + "_scale", t.name + "_zp"
            weights += [helper.make_tensor(scale, TensorProto.FLOAT, [], [t.scale]),
                        helper.make_tensor(zero, t.onnx_data_type, [], [t.offset])]
            source, target = (outer, t.name) if op == "QuantizeLinear" else (t.name, outer)
            nodes.append(helper.make_node(op, [source, scale, zero], [target], target))
            rim.append(helper.make_tensor_value_info(outer, TensorProto.FLOAT, t.dim))
            inside.append(plain)
        rims.append(rim)
        if op == "QuantizeLinear":
            context: Any = qnn_ctx_file if disable_embed_mode else Path(qnn_ctx_file).read_bytes()
            nodes.append(helper.make_node("EPContext", list(qnn_input_tensor_dic), list(qnn_output_tensor_dic),
                                          grap_name, domain="com.microsoft", ep_cache_context=context, source="Qnn",
                                          embed_mode=int(not disable_embed_mode), ep_sdk_version=qnn_sdk_version))
    graph = helper.make_graph(nodes, "qnn-onnx-model", *rims, weights, value_info=inside)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    save_model(helper.make_model(graph, producer_name="nacre", opset_imports=opsets, ir_version=10), model_file_name)


def main(arguments: Optional[List[str]] = None) -> None:
    parser = argparse.ArgumentParser(description="Writes a model around a context that Qualcomm's tools have compiled.")
    parser.add_argument("-b", "--qnn_bin", required=True, help="the context's file")
    parser.add_argument("-q", "--qnn_json", required=True, help="what the converter, or the tool for contexts, wrote")
    parser.add_argument("--disable_embed_mode", action="store_true", help="name the context's file, do not hold it")
    parser.add_argument("--quantized_IO", action="store_true", help="codes for inputs and outputs, not floats")
    told = parser.parse_args(arguments)
    read = _tensors.read(told.qnn_json)
    inputs: Tensors = {}
    outputs: Tensors = {}
    if "tensors" in read.get("graph", {}):
        parse_qnn_converter_json_file(read, inputs, outputs)
        generate_wrapper_onnx_file("QnnContext", told.qnn_json.replace(".json", "_qnn_ctx.onnx"), inputs, outputs,
                                   told.disable_embed_mode, told.qnn_bin, told.quantized_IO)
        return
    if "graphs" not in read.get("info", {}):
        raise ValueError(f"{told.qnn_json} has neither graph.tensors nor info.graphs: no file of Qualcomm's tools")
    for graph in read["info"]["graphs"]:
        inputs, outputs = {}, {}
        name = parse_qnn_graph(graph, inputs, outputs)
        path = f"{name}_qnn_ctx{'' if told.quantized_IO else '_fp32_io'}.onnx"
        generate_wrapper_onnx_file(name, path, inputs, outputs, told.disable_embed_mode, told.qnn_bin,
                                   told.quantized_IO, read["info"]["buildId"])


if __name__ == "__main__":
    main()
