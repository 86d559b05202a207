"""Weights of 4 bits as bitsandbytes has them: MatMul by a constant becomes MatMulBnb4, whose codes are floats of 4 bits
(FP4) or quantiles of the normal distribution (NF4), times the greatest magnitude of a block."""
from __future__ import annotations

import argparse
import logging
from typing import List, Optional, Tuple

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from nacre.capi import _quantize
from nacre.quantization.matmul_nbits_quantizer import get_initializer, put_initializer
from nacre.quantization.onnx_model import ONNXModel, clean_initializers, subgraphs
from nacre.quantization.quant_utils import load_model

logger = logging.getLogger(__name__)


class MatMulBnb4Quantizer:
    """process() rewrites `model` in place."""

    FP4, NF4 = 0, 1

    def __init__(self, model: ModelProto, quant_type: int, block_size: int,
                 nodes_to_exclude: Optional[List[str]] = None) -> None:
        if quant_type not in (self.FP4, self.NF4):
            raise ValueError(f"quant_type: expected 0 (FP4) or 1 (NF4), got {quant_type}")
        self.model = ONNXModel(model)
        self.quant_type, self.block_size = quant_type, int(block_size)
        self.nodes_to_exclude = set(nodes_to_exclude or ())

    def bnb4_block_quant(self, fpweight: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        """Codes and greatest magnitudes of a weight (K,N), in blocks over its transpose."""
        if fpweight.ndim != 2:
            raise ValueError("Current bnb4 block quantization only supports 2D tensors!")
        rows, columns = fpweight.shape
        codes = np.zeros((rows * columns + 1) // 2, np.uint8)
        most = np.zeros(-(-rows * columns // self.block_size), fpweight.dtype)
        _quantize.quantize_matmul_bnb4(codes, np.ascontiguousarray(fpweight.T), most, self.block_size, self.quant_type,
                                       columns, rows)
        return codes, most

    def process(self) -> None:
        if all(o.domain != "com.microsoft" for o in self.model.model.opset_import):
            self.model.model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
        self._graph(self.model.model.graph, [])

    def _graph(self, graph: GraphProto, path: List[GraphProto]) -> None:
        for node in graph.node:
            for inner in subgraphs(node):
                self._graph(inner, [*path, graph])
            if node.op_type == "MatMul" and node.name not in self.nodes_to_exclude:
                self._node(node, [*path, graph])
        clean_initializers(graph)

    def _node(self, node: NodeProto, path: List[GraphProto]) -> None:
        tensor, graph = get_initializer(node.input[1], path)
        if tensor is None or tensor.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16) or len(tensor.dims) != 2:
            logger.info("MatMul '%s' stays: its weight is no constant matrix of floats", node.name)
            return
        data = numpy_helper.to_array(tensor)
        codes, most = self.bnb4_block_quant(data)
        inputs = [node.input[0], put_initializer(graph, tensor.name + "_Bnb4", codes),
                  put_initializer(graph, tensor.name + "_absmax", most)]
        name = f"{node.name}_Bnb4" if node.name else ""
        node.CopyFrom(helper.make_node("MatMulBnb4", inputs, list(node.output), name,
                                       domain="com.microsoft", K=data.shape[0], N=data.shape[1],
                                       block_size=self.block_size, quant_type=self.quant_type))


def parse_args(arguments: Optional[List[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Writes a model whose MatMul weights have the 4 bits of bitsandbytes.")
    parser.add_argument("--input_model", required=True, help="the model's file")
    parser.add_argument("--output_model", required=True, help="where the new one goes")
    parser.add_argument("--quant_type", type=int, default=1, choices=[0, 1], help="0: FP4, 1: NF4")
    parser.add_argument("--block_size", type=int, default=64)
    parser.add_argument("--nodes_to_exclude", nargs="+", default=[])
    return parser.parse_args(arguments)


def main(arguments: Optional[List[str]] = None) -> None:
    told = parse_args(arguments)
    quantizer = MatMulBnb4Quantizer(load_model(told.input_model), told.quant_type, told.block_size,
                                    told.nodes_to_exclude)
    quantizer.process()
    quantizer.model.save_model_to_file(told.output_model, quantizer.model.model.ByteSize() >= 2**31)


if __name__ == "__main__":
    main()
