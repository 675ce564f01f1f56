"""How the partitions are shared out among the schedulers that are alive.

Rendezvous hashing with a bound: each member has its share, the partitions divided by the members
and rounded either way, and fills it with those that draw the highest number for it. What a member
holds it keeps while that fits its share, so no more moves than has to. Everyone who sees the same
members and holders computes the same.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

from mainspring.domain.ids import PARTITIONS


def share_out(
    members: Collection[str], holders: Mapping[int, str], count: int = PARTITIONS
) -> dict[int, str]:
    """Return the member for each partition; nothing when there is no member.

    `holders` says who has which partition now; members that are not alive do not count.
    """
    if not members:
        return {}
    held: dict[str, list[int]] = {member: [] for member in members}
    for partition, holder in holders.items():
        if holder in held and 0 <= partition < count:
            held[holder].append(partition)
    room = _shares(held, count)
    owners: dict[int, str] = {}
    for member in sorted(members):
        best = sorted(held[member], key=lambda one: (-_drawn(member, one), one))
        kept = best[: room[member]]
        room[member] -= len(kept)
        owners.update(dict.fromkeys(kept, member))
    for partition in range(count):
        if partition not in owners:
            takers = [member for member in members if room[member]]
            taker = max(takers, key=lambda one: (_drawn(one, partition), one))
            room[taker] -= 1
            owners[partition] = taker
    return owners


def spans(partitions: Iterable[int]) -> str:
    """Write a set of partitions for people, such as `0-20, 22`; `none` when it is empty."""
    ordered = sorted(set(partitions))
    if not ordered:
        return "none"
    firsts = [ordered[0], *(after for before, after in pairwise(ordered) if after > before + 1)]
    lasts = [*(before for before, after in pairwise(ordered) if after > before + 1), ordered[-1]]
    return ", ".join(
        str(first) if first == last else f"{first}-{last}"
        for first, last in zip(firsts, lasts, strict=True)
    )


def _shares(held: Mapping[str, list[int]], count: int) -> dict[str, int]:
    """Return the share of each member; who holds most gets what does not divide evenly."""
    share, rest = divmod(count, len(held))
    ranked = sorted(held, key=lambda member: (-len(held[member]), member))
    return {member: share + (place < rest) for place, member in enumerate(ranked)}


def _drawn(member: str, partition: int) -> int:
    drawn = hashlib.blake2b(f"{partition}:{member}".encode(), digest_size=8).digest()
    return int.from_bytes(drawn, "big")
