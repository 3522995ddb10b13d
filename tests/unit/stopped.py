"""Evidence of a call without a result, made by hand as observe would make it."""

from tritontrace.results import Cause


def raised(message, exception="RuntimeError", line=""):
    """The evidence of a call that ended with an exception, raised by that line."""
    details = {"exception": exception, "message": message, "line": line}
    return {"error": f"raised {exception}: {message}", "cause": Cause("raised", details=details)}


def refused(operation):
    """The evidence of a call in which torch did what it may not."""
    return {"refused": f"it also uses {operation}", "cause": Cause("refused", details={"operation": operation})}
