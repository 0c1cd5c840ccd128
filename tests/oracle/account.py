"""Estimates that are settled later, of the oracle: from docs/reference/limits.md (reserve and
settle).

`Accounts` is what a `Sim` has of them. An account is the open reservations of a key, and the states
as the last call that reserved or settled left them; it knows nothing of the C's layout.
"""

from math import ceil


class Slot:
    """An open reservation. `took`, by term: what names its events, or None for a term that did not
    take it. `spell`, by term: the least that a bucket has owed from this reservation until the next
    open one, as the time that it takes to drain."""

    def __init__(self, cost, lapse, is_free, took, spell):
        self.cost, self.lapse, self.is_free, self.took, self.spell = (
            cost, lapse, is_free, took, spell)


class Account:
    """Of terms in these places, with these numbers."""

    def __init__(self, places, numbers):
        self.places, self.numbers, self.slots, self.states = places, numbers, {}, None

    def from_on(self, slot):
        """The slot, and those that were reserved later."""
        slots = list(self.slots.values())
        return slots[slots.index(slot):]

    def remove(self, number):
        """The time of the one before then goes on until the next one."""
        numbers = list(self.slots)
        at = numbers.index(number)
        slot = self.slots.pop(number)
        if at > 0:
            before = self.slots[numbers[at - 1]]
            before.spell = [min(x, y) for x, y in zip(before.spell, slot.spell)]


def drains(t):
    return type(t).__name__ == "TokenBucket" or \
        (type(t).__name__ == "LeakyBucket" and t.delay is None)


def owed(t, s, now):
    """As a time; of a key whose clock has stepped back, by the later due time."""
    return max(0, s.D - now)


def named(t, s):
    """What names the events that were counted last."""
    kind = type(t).__name__
    if kind == "FixedWindow":
        return s.end if s else None
    if kind in ("SlidingWindow", "SlidingCounter"):
        return max(s) if s else None
    if kind == "SlidingLog":
        return s.newest
    return s.D if kind == "MinInterval" else None


def without(t, s, now, n, name, zero):
    """The state without up to n of the events of that name, and how many those were."""
    kind = type(t).__name__
    if name is None:
        return s, 0
    if kind == "FixedWindow":
        return t.refund(s, now, n, zero) if t.open(s, now) and s.end == name else (s, 0)
    if kind == "MinInterval":
        return t.refund(s, now, n, zero) if s.D == name else (s, 0)
    if kind == "SlidingWindow":
        cur = t.current(s, now)
        back = min(n, t.window(s, cur).get(name, 0))
        new = {i: k - (back if i == name else 0) for i, k in s.items()}
        new = {i: k for i, k in new.items() if k > 0}
        return ((new if t.window(new, cur) else {}), back) if back else (s, 0)
    if kind == "SlidingCounter":
        w = t.window(s, now)
        back = min(n, s.get(name, 0)) if name in (w, w - 1) else 0
        new = {i: s.get(i, 0) - (back if i == name else 0) for i in (w, w - 1)}
        return ({i: k for i, k in new.items() if k > 0}, back) if back else (s, 0)
    if kind == "SlidingLog":
        back = min(n, t.live(s, now).count(name))
        times = list(t.kept(s, now))
        for _ in range(back):
            times.remove(name)
        return (type(s)(times, times[-1] if times else None), back) if back else (s, 0)
    return s, 0


class Accounts:
    """What a Sim has of accounts: self.accounts, by key."""

    def places(self, terms):
        """What the account of a key belongs to: it is void for others."""
        return [t.lineage for t in terms]

    def numbers(self, terms):
        """By which a live change is noticed: what is open then gives nothing back."""
        return len(self.versions)

    def account(self, key, terms):
        """The key's account, as far as it is still true."""
        places, numbers = self.places(terms), self.numbers(terms)
        a = self.accounts.get(key)
        if a is None or a.places != places:
            a = self.accounts[key] = Account(places, numbers)
        if a.numbers != numbers:
            for slot in a.slots.values():
                slot.took = [None if name is None else -1 for name in slot.took]
                slot.spell = [0 for _ in slot.spell]
            a.numbers = numbers
        return a

    def lower(self, a, terms, states):
        """Notes the least that the buckets have owed since the last call."""
        for i, t in enumerate(terms):
            if drains(t) and a.slots:
                last = list(a.slots.values())[-1]
                last.spell[i] = min(last.spell[i], owed(t, a.states[i], self.now),
                                    owed(t, states[i], self.now))

    def settle(self, a, slot, n, terms, zeros, states):
        """The states after n of the slot are given back, and the most that came back."""
        after, most = list(states), 0
        for i, t in enumerate(terms):
            if slot.took[i] is None or n == 0:
                continue
            if drains(t):
                by = min(n * t.T, *(s.spell[i] for s in a.from_on(slot)))
                after[i], by = t.lower(states[i], self.now, by, zeros[i])
                back = ceil(by / t.T)
                for s in a.from_on(slot):       # in all that time it would have owed less
                    s.spell[i] -= by
            else:
                after[i], back = without(t, states[i], self.now, n, slot.took[i], zeros[i])
            most = max(most, back)
        return [t.forget(s, z) for t, s, z in zip(terms, after, zeros)], most

    def ends(self, key, a, states):
        """A call that reserved or settled is over."""
        for number, slot in list(a.slots.items()):
            if not slot.is_free and slot.lapse <= self.now:
                a.remove(number)
        a.states = states
        self.keep(key, states)
        if not a.slots:
            self.accounts.pop(key, None)

    def lapse(self, key):
        """Gives back what has lapsed as nothing."""
        a = self.accounts.get(key)
        if a is None or not any(s.is_free and s.lapse <= self.now for s in a.slots.values()):
            return
        terms, zeros, states = self.touch(key)
        a = self.account(key, terms)
        self.lower(a, terms, states)
        for name, slot in list(a.slots.items()):
            if slot.is_free and slot.lapse <= self.now:
                states, _ = self.settle(a, slot, slot.cost, terms, zeros, states)
                a.remove(name)
        self.ends(key, a, states)

    def reserve(self, key, cost, opts):
        from oracle import OK   # which is written in terms of this file
        self.lapse(key)
        terms, zeros, states = self.touch(key)
        a = self.account(key, terms)
        self.lower(a, terms, states)
        answers = [t.decide(s, self.now, cost, t.default_patience)
                   for t, s in zip(terms, states)]
        v, after, _ = self.decide(key, cost, None)
        self.reserved[opts["as"]] = key, None
        if v.allowed:
            self.estimates += 1
            took = [None if cost == 0 or answer[0] != OK
                    else named(t, s) if named(t, s) is not None else -1
                    for t, s, answer in zip(terms, after, answers)]
            spell = [owed(t, s, self.now) if drains(t) else 0 for t, s in zip(terms, after)]
            lapse = self.now + self.span(opts["ttl"])
            a.slots[self.estimates] = Slot(cost, lapse, opts.get("lapse") == "free", took, spell)
            self.reserved[opts["as"]] = key, self.estimates
        self.ends(key, a, after)
        return key, cost, v

    def commit(self, name, cost):
        """Settles it with the cost, None to cancel: the key, what is reported, how the key then
        stands."""
        key, number = self.reserved[name]
        self.lapse(key)
        terms, zeros, states = self.touch(key)
        a = self.account(key, terms)
        slot = a.slots.get(number)
        if slot is None or slot.lapse <= self.now:
            if not a.slots:
                self.accounts.pop(key, None)
            return key, 0, self.stands(terms, zeros, states)
        before = states
        self.lower(a, terms, states)
        states, back = self.settle(a, slot, max(0, slot.cost - (cost or 0)), terms, zeros, states)
        if (cost or 0) > slot.cost:
            states = [s if name is None else t.owe(s, self.now, cost - slot.cost)
                      for t, s, name in zip(terms, states, slot.took)]
        a.remove(number)
        self.ends(key, a, states)
        v = self.stands(terms, zeros, states)
        return key, back if cost is None else cost, v if cost is None else v._replace(
            warned=self.crossed(terms, before, states))
