"""Every model of tests/models, optimized by onnxruntime at each level and saved, gives what the model gives."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "py"))
import test_ort_models  # noqa: E402
import test_real_models  # noqa: E402


@pytest.mark.parametrize("level", test_ort_models.LEVELS)
@pytest.mark.parametrize("name", test_real_models.NAMES)
def test_optimized_by_onnxruntime(name, level, tmp_path):
    test_ort_models.check_real_model(name, level, tmp_path)
