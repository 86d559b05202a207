"""What a build says of itself."""
from nacre import __version__, package_name

__all__ = ["__version__", "package_name"]
