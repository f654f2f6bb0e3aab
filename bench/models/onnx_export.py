"""Export of a BERT network to ONNX from its weights, without the libraries of an exporter."""
# pyright: basic
# `onnx` has no types to speak of.

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

TAKEN = ("input_ids", "attention_mask", "token_type_ids")
GIVEN = "last_hidden_state"
OPSET, IR = 20, 9
FAR_BELOW = -1e9
"""Added to the attention scores of padding."""


def write_network(folder: Path) -> None:
    """Write `onnx/model.onnx` beside the weights of a folder."""
    config = json.loads((folder / "config.json").read_text())
    bert = _Bert(load_file(folder / "model.safetensors"), config)
    bert.build()
    taken = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in TAKEN]
    given = helper.make_tensor_value_info(GIVEN, TensorProto.FLOAT, ["texts", "tokens", config["hidden_size"]])
    constants = [numpy_helper.from_array(value, name) for name, value in bert.constants.items()]
    graph = helper.make_graph(bert.nodes, "bert", taken, [given], constants)
    (folder / "onnx").mkdir()
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR),
        folder / "onnx" / "model.onnx",
    )


class _Bert:
    """Builds the graph; every method returns the name of the output of its last node."""

    def __init__(self, weights: dict[str, np.ndarray], config: dict[str, int]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self._weights, self._config = weights, config
        self._heads = config["num_attention_heads"]

    def build(self) -> None:
        tokens = self._embedded()
        hidden = self._node("Unsqueeze", self._node("Cast", "attention_mask", to=TensorProto.FLOAT), self._whole(1, 2))
        padding = self._node("Mul", self._node("Sub", self._number(1), hidden), self._number(FAR_BELOW))
        for layer in range(self._config["num_hidden_layers"]):
            tokens = self._layer(tokens, padding, f"encoder.layer.{layer}")
        self.nodes.append(helper.make_node("Identity", [tokens], [GIVEN]))

    def _embedded(self) -> str:
        length = self._node("Gather", self._node("Shape", "input_ids"), self._whole(1))
        places = self._weight("embeddings.position_embeddings.weight")
        places = self._node("Slice", places, self._whole(0), length, self._whole(0))
        words = self._node("Gather", self._weight("embeddings.word_embeddings.weight"), "input_ids")
        kinds = self._node("Gather", self._weight("embeddings.token_type_embeddings.weight"), "token_type_ids")
        return self._norm(self._node("Add", self._node("Add", words, places), kinds), "embeddings.LayerNorm")

    def _layer(self, tokens: str, padding: str, name: str) -> str:
        attended = self._linear(self._attention(tokens, padding, name), f"{name}.attention.output.dense")
        tokens = self._norm(self._node("Add", tokens, attended), f"{name}.attention.output.LayerNorm")
        thought = self._node("Gelu", self._linear(tokens, f"{name}.intermediate.dense"))
        thought = self._linear(thought, f"{name}.output.dense")
        return self._norm(self._node("Add", tokens, thought), f"{name}.output.LayerNorm")

    def _attention(self, tokens: str, padding: str, name: str) -> str:
        wide = self._config["hidden_size"] // self._heads
        query, key, value = (
            self._node("Transpose", self._by_heads(self._linear(tokens, f"{name}.attention.self.{part}")), perm=turned)
            for part, turned in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3]))
        )
        scores = self._node("Mul", self._node("MatMul", query, key), self._number(wide**-0.5))
        weights = self._node("Softmax", self._node("Add", scores, padding), axis=-1)
        joined = self._node("Transpose", self._node("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self._node("Reshape", joined, self._whole(0, 0, wide * self._heads))

    def _by_heads(self, given: str) -> str:
        return self._node("Reshape", given, self._whole(0, 0, self._heads, self._config["hidden_size"] // self._heads))

    def _linear(self, given: str, name: str) -> str:
        turned = self._constant(f"{name}.turned", np.ascontiguousarray(self._weights[f"{name}.weight"].T))
        return self._node("Add", self._node("MatMul", given, turned), self._weight(f"{name}.bias"))

    def _norm(self, given: str, name: str) -> str:
        weights = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self._node("LayerNormalization", given, *weights, epsilon=self._config["layer_norm_eps"], axis=-1)

    def _node(self, kind: str, *given: str, **options: object) -> str:
        made = f"{kind}_{len(self.nodes)}"
        node = helper.make_node(kind, list(given), [made])
        node.attribute.extend(helper.make_attribute(name, value) for name, value in options.items())
        self.nodes.append(node)
        return made

    def _weight(self, name: str) -> str:
        return self._constant(name, self._weights[name])

    def _whole(self, *numbers: int) -> str:
        return self._constant(f"whole_{'_'.join(map(str, numbers))}", np.array(numbers, np.int64))

    def _number(self, number: float) -> str:
        return self._constant(f"number_{number}", np.array(number, np.float32))

    def _constant(self, name: str, value: np.ndarray) -> str:
        self.constants[name] = value
        return name
