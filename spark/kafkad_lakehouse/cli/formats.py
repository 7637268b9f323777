"""The formats of keys and values from the options of `kafkad export run`."""

from pathlib import Path
from typing import Any

from kafkad.cli.errors import WrongConfiguration
from kafkad_lakehouse.export.values.format import DEAD_LETTERS, NULL, STRING, ValueFormat

RAW = "raw"
_KINDS = "--value json, avro or protobuf, or --key json or avro"
_FILE_OPTION = {"key": "--key-schema-file", "value": "--schema-file"}


def formats_of(
    topic: str,
    on_bad_record: str | None,
    *,
    key: str = RAW,
    key_schema_file: Path | None = None,
    key_schema_subject: str = "",
    value: str = RAW,
    schema_file: Path | None = None,
    schema_message: str = "",
    schema_registry: str = "",
    schema_subject: str = "",
    **others: Any,
) -> tuple[tuple[ValueFormat, ...], dict[str, Any]]:
    """The formats of parsed keys and values, and the remaining options. Raises `WrongConfiguration`."""
    _check_kinds(
        on_bad_record, key, key_schema_file or key_schema_subject, value, schema_file or schema_subject, schema_message
    )
    with_registry = {
        of
        for of, kind, file in (("key", key, key_schema_file), ("value", value, schema_file))
        if kind not in (RAW, STRING) and _is_by_registry(of, kind, file, schema_registry)
    }
    if schema_registry and not with_registry:
        raise WrongConfiguration([f"--schema-registry needs {_KINDS}, without a schema file"])
    if schema_subject and "value" not in with_registry:
        raise WrongConfiguration(["--schema-subject needs --schema-registry"])
    if key_schema_subject and "key" not in with_registry:
        raise WrongConfiguration(["--key-schema-subject needs --schema-registry"])
    found = tuple(
        ValueFormat(
            kind=kind,
            of=of,
            schema=_content(of, file),
            message=message,
            registry=schema_registry if of in with_registry else "",
            subject=subject or f"{topic}-{of}",
            on_bad=on_bad_record or DEAD_LETTERS,
        )
        for of, kind, file, message, subject in (
            ("key", key, key_schema_file, "", key_schema_subject),
            ("value", value, schema_file, schema_message, schema_subject),
        )
        if kind != RAW
    )
    return found, others


def _check_kinds(
    on_bad_record: str | None, key: str, has_key_schema: object, value: str, has_schema: object, schema_message: str
) -> None:
    if value == RAW and (has_schema or schema_message):
        raise WrongConfiguration(["schema options need --value json, avro or protobuf"])
    if key in (RAW, STRING) and has_key_schema:
        raise WrongConfiguration(["schema options of keys need --key json or avro"])
    if schema_message and value != "protobuf":
        raise WrongConfiguration(["--schema-message needs --value protobuf"])
    if on_bad_record in (NULL, DEAD_LETTERS) and key == value == RAW:
        raise WrongConfiguration(
            [f"--on-bad-record {on_bad_record} needs {_KINDS}; for damaged batches use --on-damage"]
        )


def _is_by_registry(of: str, kind: str, file: Path | None, registry: str) -> bool:
    if file is None and not registry:
        raise WrongConfiguration([f"--{of} {kind} needs either {_FILE_OPTION[of]} or --schema-registry"])
    return file is None


def _content(of: str, file: Path | None) -> bytes:
    try:
        return b"" if file is None else file.read_bytes()
    except OSError as error:
        raise WrongConfiguration([f"{_FILE_OPTION[of]}: {file} can't be read: {error.strerror}"]) from error
