"""Tokens of an identity provider: JWTs that are signed with one of its published keys.

The provider names the address of its keys in `/.well-known/openid-configuration`. A token must be signed with one of
the asymmetric algorithms below (so neither with `none` nor with a shared key), name this audience and this issuer, and
be valid now. The claim `oidc_user_claim` names the user, the claim `oidc_grants_claim` the grants: a list of patterns, or
a text of patterns separated by spaces. The claim `oidc_mask_claim` names the mask of what the user sees; without it, nothing is masked.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.base.errors import EngineUnavailableError, UnauthorizedError
from service.base.principal import Principal, Source, is_grant

if TYPE_CHECKING:
    import jwt

# By the type of the key. PyJWT raises TypeError where a token names an algorithm of another type of key.
ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
_ALL_ALGORITHMS = frozenset(name for names in ALGORITHMS.values() for name in names)
_LEEWAY_S = 60
_ANSWER_WITHIN_S = 10
_KEYS_KEPT_S = 300
_CONFIGURATION = "/.well-known/openid-configuration"
_LONGEST_TOKEN = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """An identity provider and the claims of its tokens.

    Attributes:
        issuer: its address, as its tokens name it.
        audience: the audience that its tokens must name.
        keys_url: address of its keys; if empty, the configuration of the issuer names it.
        user_claim, grants_claim, mask_claim: names of claims.
        default_grants: grants of tokens without the claim.
    """

    issuer: str
    audience: str
    keys_url: str = ""
    user_claim: str = "sub"
    grants_claim: str = "savepointdb"
    mask_claim: str = "savepointdb_mask"
    default_grants: tuple[str, ...] = ()


class TokenVerifier:
    """Checks tokens; safe to share between threads. Requests the provider's keys when it sees a new key id.

    Raises:
        EngineUnavailableError: PyJWT is not installed.
    """

    def __init__(self, provider: Provider) -> None:
        try:
            import jwt
        except ImportError as error:
            raise EngineUnavailableError(
                "tokens of an identity provider need PyJWT", hint="pip install 'savepointdb[oidc]'"
            ) from error
        self._jwt = jwt
        self._provider = provider
        self._lock = threading.Lock()
        self._keys: jwt.PyJWKClient | None = None

    def principal(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises:
            UnauthorizedError: the token is not valid.
            EngineUnavailableError: the keys of the provider cannot be read.
        """
        provider = self._provider
        if len(token) > _LONGEST_TOKEN:
            raise UnauthorizedError("expected a valid token")
        try:
            # Checked before any key is requested, so that such a token costs no request.
            algorithm = self._jwt.get_unverified_header(token).get("alg")
            if not isinstance(algorithm, str) or algorithm not in _ALL_ALGORITHMS:
                raise UnauthorizedError("expected a token with an asymmetric signature")
            key = self._client().get_signing_key_from_jwt(token)
            claims = self._jwt.decode(
                token,
                key.key,  # the key alone: a key set need not name the algorithm
                algorithms=list(ALGORITHMS.get(key.key_type or "", ())),
                audience=provider.audience,
                issuer=provider.issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except self._jwt.PyJWKClientConnectionError as error:
            raise EngineUnavailableError("the identity provider does not answer") from error
        except self._jwt.ExpiredSignatureError as error:
            raise UnauthorizedError("the token has expired") from error
        except self._jwt.PyJWTError as error:
            raise UnauthorizedError("expected a valid token") from error
        name = claims.get(provider.user_claim)
        # Names get into logs, headers and JSON: neither control characters nor half a surrogate pair may be in them.
        if not isinstance(name, str) or not name or not name.isprintable():
            raise UnauthorizedError(f"expected a token with a user's name in the claim {provider.user_claim}")
        mask = claims.get(provider.mask_claim)
        # A claim of another form must not show what a mask would hide.
        if mask is not None and not isinstance(mask, str):
            raise UnauthorizedError(f"expected the name of a mask in the claim {provider.mask_claim}")
        return Principal(name=name, grants=self._grants(claims), source=Source.TOKEN, mask=mask)

    def _grants(self, claims: dict[str, Any]) -> tuple[str, ...]:
        found = claims.get(self._provider.grants_claim)
        if found is None:
            return self._provider.default_grants
        texts = found.split() if isinstance(found, str) else found
        if not isinstance(texts, list):
            return ()
        return tuple(text for text in texts if isinstance(text, str) and is_grant(text))

    def _client(self) -> jwt.PyJWKClient:
        with self._lock:
            if self._keys is None:
                url = self._provider.keys_url or self._keys_url()
                self._keys = self._jwt.PyJWKClient(url, lifespan=_KEYS_KEPT_S, timeout=_ANSWER_WITHIN_S)
            return self._keys

    def _keys_url(self) -> str:
        """Read the address of the keys from the provider's configuration; PyJWT's client fetches it with its limits."""
        client = self._jwt.PyJWKClient(
            self._provider.issuer.rstrip("/") + _CONFIGURATION, cache_jwk_set=False, timeout=_ANSWER_WITHIN_S
        )
        configuration = client.fetch_data()
        url = configuration.get("jwks_uri") if isinstance(configuration, dict) else None
        if not isinstance(url, str):
            raise EngineUnavailableError("the identity provider does not say where its keys are")
        return url
