"""Pictures, drawn with matplotlib from plain arrays; nothing here knows where they come from."""
