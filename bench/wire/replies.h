/* Replies are counted, not parsed.
 *
 * All replies to one command have as many lines: an integer has one, an array of five integers has
 * six. So it is enough to count the ends of lines, some bytes at a time; what else may be wrong
 * shows in the counts:
 *
 *   (1) A line that begins with '-' is an error. (A negative integer begins with ':'.)
 *   (2) As many arrays begin as there are replies, or none does: else the shape was not what we
 *       think.
 *   (3) "*5\r\n:1" says `limited`, in CL.THROTTLE and in our script for Redis.
 *
 * No line of a reply may hold a text with a line end in it; what is asked for here answers with
 * none.
 */
#ifndef WEIR_BENCH_REPLIES_H
#define WEIR_BENCH_REPLIES_H

#include <stddef.h>
#include <stdint.h>

enum { REPLY_CARRY = 8 }; /* how far the counting looks back */

struct reply_tally {
    uint64_t lines, errors, arrays, limited;
};

/* Counts `len` bytes; the REPLY_CARRY bytes before them are those that came before, or line
 * ends. */
void reply_tally_add(struct reply_tally *t, const char *bytes, size_t len);

/* Lines of the reply that begins with these bytes: 0 if that cannot be told. */
unsigned reply_lines(const char *bytes, size_t len);

#endif
