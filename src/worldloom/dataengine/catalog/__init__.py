"""The catalog: an in-memory DuckDB with a view over the current parts of every table."""

from worldloom.dataengine.catalog.open import open_catalog, publish_catalog

__all__ = ["open_catalog", "publish_catalog"]
