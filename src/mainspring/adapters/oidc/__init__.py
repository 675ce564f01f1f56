"""Bearer tokens (JWT) of an identity provider that speaks OpenID Connect.

Only what is configured is trusted: the issuer, the audience, the kinds of signature. What a token
says about where its key is (`jku`, `x5u`, `jwk`) is never looked at.
"""
