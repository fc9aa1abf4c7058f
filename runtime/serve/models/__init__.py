"""What requests may say and what answers have, as the OpenAPI document describes them."""
