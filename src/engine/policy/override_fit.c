/* Whether a key's own limit has the shape of its policy's: asked when an override is set, when
 * numbers come with a request, and when a file is read, without a store. */
#include <string.h>

#include "algo/algo.h"
#include "engine/embed.h"
#include "os/diag.h"

/* Two terms at the same place. */
static int term_fits(const struct weir_term *of, const char *name, const struct weir_term *own,
                     int number, struct weir_diag *why)
{
    struct weir__meter base, m;
    const char *differs;

    weir__meter_init(&base, of, 0);
    weir__meter_init(&m, own, 0);
    differs = weir__meter_misfit(&m, &base);
    if (m.algo != base.algo)
        return weir__diag(why, WEIR_EINVAL,
                          "term %d of the key's own limit is %s, that of the policy '%s' is %s; "
                          "both must have the same algorithms in the same order",
                          number, weir_algorithm_name(own->algorithm), name,
                          weir_algorithm_name(of->algorithm));
    if (differs && differs[0] == '\0')
        return weir__diag(
            why, WEIR_EINVAL,
            "term %d: the state of a key takes %zu bytes under its own %s and %zu "
            "under that of the policy '%s'; both must have the same layout%s",
            number, weir__meter_state_size(&m), weir_algorithm_name(own->algorithm),
            weir__meter_state_size(&base), name,
            own->algorithm == WEIR_SLIDING_LOG ? ": the count of a sliding-log must stay" : "");
    if (differs)
        return weir__diag(why, WEIR_EINVAL,
                          "term %d of the key's own limit has another %s than that of the policy "
                          "'%s'; a key's own %s may change other numbers only",
                          number, differs, name, weir_algorithm_name(of->algorithm));
    if (own->algorithm == WEIR_SYSTEM && memcmp(own, of, sizeof *own) != 0)
        return weir__diag(why, WEIR_EINVAL,
                          "system has one state for all keys: the key's own limit must have the "
                          "same system term as the policy '%s'",
                          name);
    return 0;
}

int weir__override_fits(const struct weir_limit *of, const char *name, const struct weir_limit *own,
                        struct weir_diag *why)
{
    if (own->n != of->n)
        return weir__diag(
            why, WEIR_EINVAL,
            "the key's own limit has %d terms and the limit of the policy '%s' has %d; both must "
            "have the same algorithms in the same order",
            own->n, name, of->n);
    for (int i = 0; i < of->n; i++) {
        const int error = term_fits(&of->term[i], name, &own->term[i], i + 1, why);

        if (error)
            return error;
    }
    return 0;
}
