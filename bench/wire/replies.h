/* Replies are counted, not parsed.
 *
 * All replies to one command have as many lines: an integer has one, an array of five integers has
 * six. So it is enough to count the line ends, some bytes at a time; other faults show in the
 * counts:
 *
 *   (1) A line that begins with '-' is an error. (A negative integer begins with ':'.)
 *   (2) As many arrays begin as there are replies, or none does: otherwise the form was not the
 *       expected one.
 *   (3) "*5\r\n:1" says `limited`, in CL.THROTTLE and in our script for Redis.
 *
 * No line of a reply may contain a text with a line end; the commands used here reply with none.
 */
#ifndef WEIR_BENCH_REPLIES_H
#define WEIR_BENCH_REPLIES_H

#include <stddef.h>
#include <stdint.h>

enum { REPLY_CARRY = 8 }; /* how far the counting looks back */

struct reply_tally {
    uint64_t lines, errors, arrays, limited;
};

/* Counts `len` bytes; the REPLY_CARRY bytes in front of them are those that came before, or line
 * ends. */
void reply_tally_add(struct reply_tally *t, const char *bytes, size_t len);

/* Lines of the reply that begins with these bytes: 0 if they do not show it. */
unsigned reply_lines(const char *bytes, size_t len);

#endif
