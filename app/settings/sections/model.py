"""Which model is served, and how it is shown."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from app.settings.kinds import Auto, Count


class Model(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which model is served."""

    path: Annotated[
        str,
        Meta(
            description="Folder of a model, or its hub id (owner/name); empty serves the built-in demo model."
        ),
    ]
    alias: Annotated[
        str, Meta(description="Name clients see and ask for; empty derives it from the model's path.")
    ]
    aliases: Annotated[
        str, Meta(description="More names that clients may ask for, separated by commas; empty adds none.")
    ]
    revision: Annotated[
        str, Meta(description="Branch, tag or commit of the hub repository; empty is its default branch.")
    ]
    adapter_path: Annotated[str, Meta(description="Folder of a LoRA adapter to apply; empty applies none.")]
    trust_remote_code: Annotated[
        bool, Meta(description="Let the model's repository run its own Python code in this process.")
    ]
    chat_template: Annotated[
        str,
        Meta(
            description="File with a Jinja chat template to use instead of the model's own; empty keeps it."
        ),
    ]
    template_kwargs: Annotated[
        dict[str, Any],
        Meta(
            description="Variables for the chat template, where a request's chat_template_kwargs do not set"
            " them."
        ),
    ]
    context_length: Annotated[
        Count | Auto,
        Meta(description="Most tokens of prompt and reply together; auto is what the model declares."),
    ]
    recheck: Annotated[
        bool,
        Meta(
            description="Check the model at this start even where nothing has changed since an earlier check."
        ),
    ]
