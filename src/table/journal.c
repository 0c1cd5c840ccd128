#include "table/journal.h"

static bool lies_within(uint64_t at, uint64_t len, uint64_t bytes)
{
    return at % 8 == 0 && len <= bytes && at <= bytes - len;
}

static void restore(const struct weir__note *n, char *base, uint64_t bytes)
{
    if (!lies_within(n->fingerprint_at, sizeof n->fingerprint, bytes) ||
        !lies_within(n->state_at, n->state_bytes, bytes) ||
        !lies_within(n->saved_at, n->state_bytes, bytes))
        return;
    memcpy(base + n->state_at, base + n->saved_at, n->state_bytes);
    memcpy(base + n->fingerprint_at, &n->fingerprint, sizeof n->fingerprint);
}

bool weir__journal_undo(struct weir__journal *j, uint32_t number, char *base, uint64_t bytes)
{
    const uint64_t notes = atomic_load_explicit(&j->notes, memory_order_acquire);
    bool held = false;

    for (uint64_t i = notes <= WEIR_TERMS_MAX ? notes : 0; i > 0; i--)
        restore(&j->note[i - 1], base, bytes);
    weir__order_stores();
    atomic_store_explicit(&j->notes, 0, memory_order_relaxed);
    weir__order_stores();
    for (int i = 0; i < WEIR__JOURNAL_LOCKS; i++) {
        const uint64_t at = atomic_load_explicit(&j->lock_at[i], memory_order_relaxed);
        struct weir__lock *l;

        if (at == 0 || at % 4 != 0 || !lies_within(at & ~UINT64_C(7), 8, bytes))
            continue;
        l = (struct weir__lock *)(void *)(base + at);
        if (atomic_load_explicit(&l->holder, memory_order_acquire) == number) {
            weir__lock_drop(l);
            held = true;
        }
        atomic_store_explicit(&j->lock_at[i], 0, memory_order_relaxed);
    }
    return held;
}
