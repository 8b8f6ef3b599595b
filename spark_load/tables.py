"""The columns of `schema.py` as types of Spark (DDL text) and of pyarrow. No files here."""

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from spark_load.schema import CALL_COLUMNS, OPERATION_COLUMNS, Column

SPARK_SCALARS: Final = {"string": "STRING", "int": "INT", "long": "BIGINT"}
ARROW_SCALARS: Final = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}


def spark_ddl(columns: Iterable[Column]) -> str:
    return ", ".join(f"`{column.name}` {_spark_type(column)}" for column in columns)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([_arrow_field(column) for column in columns])


def _spark_type(column: Column) -> str:
    suffix = "" if column.is_nullable else " NOT NULL"
    if isinstance(column.type, str):
        return SPARK_SCALARS[column.type] + suffix
    inner = ", ".join(f"`{child.name}`: {_spark_type(child)}" for child in column.type)
    return f"ARRAY<STRUCT<{inner}>>{suffix}"


def _arrow_field(column: Column) -> pa.Field:
    return pa.field(column.name, _arrow_type(column), nullable=column.is_nullable)


def _arrow_type(column: Column) -> pa.DataType:
    if isinstance(column.type, str):
        return ARROW_SCALARS[column.type]
    return pa.list_(pa.struct([_arrow_field(child) for child in column.type]))


OPERATIONS_DDL: Final = spark_ddl(OPERATION_COLUMNS)
CALLS_DDL: Final = spark_ddl(CALL_COLUMNS)
OPERATIONS_ARROW: Final = arrow_schema(OPERATION_COLUMNS)
CALLS_ARROW: Final = arrow_schema(CALL_COLUMNS)
