"""Every error Samovar raises on purpose. Each says what was wrong, where, and what to do."""


class SamovarError(Exception):
    """The root: a message that can be shown to a person as it stands."""


class ConfigurationError(SamovarError):
    """The settings cannot be used; the start stops. One line a fault."""


class ModelError(SamovarError):
    """A model cannot be found, read or served on this machine; the start stops."""


class StartError(SamovarError):
    """The server cannot start for a reason outside its settings and model (a port in use, no backend)."""


class RestoreError(SamovarError):
    """A stored payload could not be turned back into model state; the next candidate is tried."""


class UnsupportedCacheError(SamovarError):
    """A model state of a kind Samovar does not know how to seal; it is refused, not guessed."""


class RequestError(SamovarError):
    """A request that cannot be served as asked; carries what the HTTP layer needs to say so.

    Args:
        message: what is wrong, where, and what is allowed.
        status: the HTTP status code.
        kind: OpenAI's `error.type`, such as `invalid_request_error`.
        param: the field at fault, if it is one field.
        code: OpenAI's `error.code`, such as `context_length_exceeded`.
        retry_after_seconds: sent as `Retry-After` where trying again can help.
        challenge: sent as `WWW-Authenticate` where another API key can help.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after_seconds: int | None = None,
        challenge: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code
        self.retry_after_seconds = retry_after_seconds
        self.challenge = challenge
