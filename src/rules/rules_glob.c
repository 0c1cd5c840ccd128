/* Globs: * is any number of bytes of a segment, ** any number of bytes, ? one byte of a segment.
 *
 * A glob is read as an automaton with a state for each of its bytes. All states that the path may
 * be in are kept as bits of one word, so a path is read once, whatever the glob: matching by trying
 * and going back would take a time that is exponential in the number of stars, and who sends paths
 * may be an attacker.
 *
 * State i: the first i bytes of the glob fit what was read. A ** is two bytes, of which the first
 * is passed over: only the state of the second waits.
 */
#include <string.h>

#include "base/num.h"
#include "rules/rules_internal.h"

_Static_assert(RULES_GLOB_MOST < 128, "a state for each byte, and one behind the last");

static bool glob_is_star(struct weir__slice g, size_t i)
{
    return i < g.len && g.at[i] == '*';
}

/* The lowest of the states, of which there is one. */
static size_t glob_lowest(weir__u128 states)
{
    const uint64_t low = (uint64_t)states;

    return (size_t)(low ? __builtin_ctzll(low) : 64 + __builtin_ctzll((uint64_t)(states >> 64)));
}

/* The state, and those that are reached from it without a byte: behind stars. */
static weir__u128 glob_reach(struct weir__slice g, size_t i)
{
    weir__u128 states = (weir__u128)1 << i;

    for (; glob_is_star(g, i); i++)
        states |= (weir__u128)1 << (i + 1);
    return states;
}

static weir__u128 glob_step(struct weir__slice g, weir__u128 states, char c)
{
    weir__u128 next = 0;

    for (; states; states &= states - 1) {
        const size_t i = glob_lowest(states);

        if (glob_is_star(g, i)) {
            const bool wide = glob_is_star(g, i + 1) || (i > 0 && glob_is_star(g, i - 1));

            if (wide || c != '/')
                next |= glob_reach(g, i);
        } else if (i < g.len && (g.at[i] == c || (g.at[i] == '?' && c != '/'))) {
            next |= glob_reach(g, i + 1);
        }
    }
    return next;
}

size_t rules_glob_head(struct weir__slice glob)
{
    size_t i = 0;

    while (i < glob.len && glob.at[i] != '*' && glob.at[i] != '?')
        i++;
    return i;
}

bool rules_glob_fits(struct weir__slice glob, struct weir__slice path)
{
    const size_t head = rules_glob_head(glob);
    weir__u128 states;

    if (glob.len > RULES_GLOB_MOST || head > path.len || memcmp(glob.at, path.at, head) != 0)
        return false;
    states = glob_reach(glob, head);
    for (size_t i = head; i < path.len && states; i++)
        states = glob_step(glob, states, path.at[i]);
    return states >> glob.len & 1;
}
