"""The settings of the gRPC API."""

import dataclasses
from typing import Annotated

from mainspring.config.facts import Facts


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class RpcSettings:
    """Part of `Settings`."""

    grpc_port: Annotated[
        int,
        Facts(
            "TCP port of the gRPC API, on `host`. 0: any that is free. -1: it is not served",
            low=-1,
            high=65535,
        ),
    ] = 8401
    grpc_health: Annotated[
        bool,
        Facts("Whether the gRPC API has the standard health service, which answers without a key"),
    ] = False
    grpc_reflection: Annotated[
        bool,
        Facts(
            "Whether the gRPC API describes itself to anyone who asks, without a key, for tools "
            "such as grpcurl"
        ),
    ] = False
