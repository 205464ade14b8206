"""The part of etcd's API that the store speaks, as protobuf messages that are made when this is imported.

Numbers and types of the fields are those of etcd's rpc.proto and kv.proto (etcd-io/etcd, api/etcdserverpb and
api/mvccpb, release 3.4); fields that are not named are skipped when they are read, as protobuf does.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELDS = """
KeyValue: key=1 bytes, create_revision=2 int64, mod_revision=3 int64, version=4 int64, value=5 bytes, lease=6 int64
Event: type=1 int32, kv=2 KeyValue, prev_kv=3 KeyValue
ResponseHeader: cluster_id=1 uint64, member_id=2 uint64, revision=3 int64, raft_term=4 uint64
RangeRequest: key=1 bytes, range_end=2 bytes, limit=3 int64, revision=4 int64, serializable=7 bool, keys_only=8 bool, \
count_only=9 bool
RangeResponse: header=1 ResponseHeader, kvs=2 *KeyValue, more=3 bool, count=4 int64
PutRequest: key=1 bytes, value=2 bytes, lease=3 int64, prev_kv=4 bool
PutResponse: header=1 ResponseHeader, prev_kv=2 KeyValue
DeleteRangeRequest: key=1 bytes, range_end=2 bytes, prev_kv=3 bool
DeleteRangeResponse: header=1 ResponseHeader, deleted=2 int64, prev_kvs=3 *KeyValue
RequestOp: request_range=1 RangeRequest, request_put=2 PutRequest, request_delete_range=3 DeleteRangeRequest
ResponseOp: response_range=1 RangeResponse, response_put=2 PutResponse, response_delete_range=3 DeleteRangeResponse
Compare: result=1 int32, target=2 int32, key=3 bytes, mod_revision=6 ?int64
TxnRequest: compare=1 *Compare, success=2 *RequestOp, failure=3 *RequestOp
TxnResponse: header=1 ResponseHeader, succeeded=2 bool, responses=3 *ResponseOp
CompactionRequest: revision=1 int64, physical=2 bool
CompactionResponse: header=1 ResponseHeader
WatchCreateRequest: key=1 bytes, range_end=2 bytes, start_revision=3 int64, progress_notify=4 bool, prev_kv=6 bool, \
watch_id=7 int64, fragment=8 bool
WatchProgressRequest:
WatchRequest: create_request=1 WatchCreateRequest, progress_request=3 WatchProgressRequest
WatchResponse: header=1 ResponseHeader, watch_id=2 int64, created=3 bool, canceled=4 bool, compact_revision=5 int64, \
cancel_reason=6 string, fragment=7 bool, events=11 *Event
LeaseGrantRequest: TTL=1 int64, ID=2 int64
LeaseGrantResponse: header=1 ResponseHeader, ID=2 int64, TTL=3 int64, error=4 string
LeaseRevokeRequest: ID=1 int64
LeaseRevokeResponse: header=1 ResponseHeader
LeaseKeepAliveRequest: ID=1 int64
LeaseKeepAliveResponse: header=1 ResponseHeader, ID=2 int64, TTL=3 int64
LeaseLeasesRequest:
LeaseStatus: ID=1 int64
LeaseLeasesResponse: header=1 ResponseHeader, leases=2 *LeaseStatus
AlarmRequest: action=1 int32, memberID=2 uint64, alarm=3 int32
AlarmMember: memberID=1 uint64, alarm=2 int32
AlarmResponse: header=1 ResponseHeader, alarms=2 *AlarmMember
DefragmentRequest:
DefragmentResponse: header=1 ResponseHeader
StatusRequest:
StatusResponse: header=1 ResponseHeader, version=2 string, dbSize=3 int64, leader=4 uint64, errors=8 *string, \
dbSizeInUse=9 int64
SnapshotRequest:
SnapshotResponse: header=1 ResponseHeader, remaining_bytes=2 uint64, blob=3 bytes
MemberListRequest:
Member: ID=1 uint64, name=2 string, peerURLs=3 *string, clientURLs=4 *string, isLearner=5 bool
MemberListResponse: header=1 ResponseHeader, members=2 *Member
AuthenticateRequest: name=1 string, password=2 string
AuthenticateResponse: header=1 ResponseHeader, token=2 string
"""
"""A line a message: NAME=NUMBER TYPE; `*` repeated, `?` sent even where it is zero (in etcd one of several)."""

_PACKAGE = "dashpot.etcd"

EQUAL = 0
MOD = 2
DELETE = 1
NOSPACE = 1
DEACTIVATE = 2
"""Values of Compare.result, Compare.target, Event.type, AlarmMember.alarm, AlarmRequest.action."""

METHODS = {
    "Range": ("KV", "RangeRequest", "RangeResponse"),
    "Put": ("KV", "PutRequest", "PutResponse"),
    "DeleteRange": ("KV", "DeleteRangeRequest", "DeleteRangeResponse"),
    "Txn": ("KV", "TxnRequest", "TxnResponse"),
    "Compact": ("KV", "CompactionRequest", "CompactionResponse"),
    "Watch": ("Watch", "WatchRequest", "WatchResponse"),
    "LeaseGrant": ("Lease", "LeaseGrantRequest", "LeaseGrantResponse"),
    "LeaseRevoke": ("Lease", "LeaseRevokeRequest", "LeaseRevokeResponse"),
    "LeaseKeepAlive": ("Lease", "LeaseKeepAliveRequest", "LeaseKeepAliveResponse"),
    "LeaseLeases": ("Lease", "LeaseLeasesRequest", "LeaseLeasesResponse"),
    "Alarm": ("Maintenance", "AlarmRequest", "AlarmResponse"),
    "Status": ("Maintenance", "StatusRequest", "StatusResponse"),
    "Defragment": ("Maintenance", "DefragmentRequest", "DefragmentResponse"),
    "Snapshot": ("Maintenance", "SnapshotRequest", "SnapshotResponse"),
    "MemberList": ("Cluster", "MemberListRequest", "MemberListResponse"),
    "Authenticate": ("Auth", "AuthenticateRequest", "AuthenticateResponse"),
}
"""Service, request and response of each method."""


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="dashpot/etcd.proto", package=_PACKAGE, syntax="proto3")
    kind = descriptor_pb2.FieldDescriptorProto
    for line in _FIELDS.strip().splitlines():
        name, _, fields = line.partition(":")
        message = file.message_type.add(name=name)
        for field in filter(None, (field.strip() for field in fields.split(","))):
            label, _, type_ = field.partition(" ")
            member, _, number = label.partition("=")
            made = message.field.add(name=member, number=int(number), label=kind.LABEL_OPTIONAL)
            if type_[0] == "*":
                made.label = kind.LABEL_REPEATED
            elif type_[0] == "?":
                made.proto3_optional = True
                made.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{member}")
            type_ = type_.lstrip("*?")
            if type_[0].isupper():
                made.type, made.type_name = kind.TYPE_MESSAGE, f".{_PACKAGE}.{type_}"
            else:
                made.type = kind.Type.Value(f"TYPE_{type_.upper()}")
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file())


def message(name: str) -> Any:
    """The class of a message."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


AlarmRequest = message("AlarmRequest")
AuthenticateRequest = message("AuthenticateRequest")
CompactionRequest = message("CompactionRequest")
Compare = message("Compare")
DefragmentRequest = message("DefragmentRequest")
DeleteRangeRequest = message("DeleteRangeRequest")
LeaseGrantRequest = message("LeaseGrantRequest")
LeaseKeepAliveRequest = message("LeaseKeepAliveRequest")
LeaseLeasesRequest = message("LeaseLeasesRequest")
LeaseRevokeRequest = message("LeaseRevokeRequest")
MemberListRequest = message("MemberListRequest")
PutRequest = message("PutRequest")
RangeRequest = message("RangeRequest")
RequestOp = message("RequestOp")
SnapshotRequest = message("SnapshotRequest")
StatusRequest = message("StatusRequest")
TxnRequest = message("TxnRequest")
WatchCreateRequest = message("WatchCreateRequest")
WatchProgressRequest = message("WatchProgressRequest")
WatchRequest = message("WatchRequest")
