"""The catalogue in the file that ``model_catalog_json`` names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from codex_framework import ModelCatalogue, ModelInfo, ProviderInfo
from codex_framework.contract.errors import ConfigError
from codex_framework.toolkit.files import Files
from codex_framework.toolkit.os_errors import os_error_text
from codex_plugin_models.entries import EntryError, entries_of, model_of

__all__ = ["FileCatalogue"]

_MAX_BYTES = 32 * 1024 * 1024


class FileCatalogue(ModelCatalogue):
    """Reads the file once, when a model is first looked up.

    Args:
        path: The file.
    """

    name = "file"

    def __init__(self, path: str) -> None:
        self.path = path
        self._models: Mapping[str, ModelInfo] | None = None

    def model(self, slug: str, provider: ProviderInfo) -> ModelInfo | None:  # noqa: ARG002  # one file for all of them
        """Return the properties of a model.

        Raises:
            ConfigError: The file cannot be read.
        """
        return self._read().get(slug)

    def models(self, provider: ProviderInfo) -> Iterable[ModelInfo]:  # noqa: ARG002  # one file for all of them
        """Return all models of the file. Raises ConfigError."""
        return self._read().values()

    def _read(self) -> Mapping[str, ModelInfo]:
        if self._models is None:
            try:
                data = Files().read(self.path, _MAX_BYTES + 1)
            except OSError as error:
                raise self._error(os_error_text(error)) from error
            except ValueError as error:  # a NUL
                raise self._error(str(error)) from error
            if len(data) > _MAX_BYTES:
                raise self._error(f"it is larger than {_MAX_BYTES // 2**20} MB")
            try:
                entries = entries_of(data)
            except EntryError as error:
                raise self._error(str(error)) from error
            self._models = dict(self._model(number, entry) for number, entry in enumerate(entries, 1))
        return self._models

    def _model(self, number: int, entry: object) -> tuple[str, ModelInfo]:
        try:
            model = model_of(entry, trusted=True)
        except EntryError as error:
            slug = entry.get("slug") if isinstance(entry, Mapping) else None
            named = f"model {slug!r}" if isinstance(slug, str) else f"model number {number}"
            raise self._error(f"{named}: {error}") from error
        return model.slug, model

    def _error(self, why: str) -> ConfigError:
        return ConfigError(
            f"the model catalogue {self.path} cannot be read: {why}",
            path=self.path,
            key="model_catalog_json",
            slug="model-catalogue",
            hint="Fix the file, or remove model_catalog_json from the configuration.",
        )
