"""Tools for Qualcomm's provider that need none of its libraries."""
