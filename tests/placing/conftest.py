from tests.e2e.conftest import trainer

__all__ = ["trainer"]
