"""Configs that make quantized models fit for a vendor's provider; the models are plain QDQ models and run here too."""
