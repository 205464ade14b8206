"""What these tests need: etcd, as the tests of the store start it."""

from tests.store.conftest import etcd, etcd_program

__all__ = ["etcd", "etcd_program"]
