/* Replies on their way to a client.
 *
 * Replies are written in the order of the requests. Most are in the worker's scratch buffer when a
 * wake-up ends, and leave with one write; bytes that the socket did not take, and those behind a
 * delayed reply, wait in segments of the connection's own, within max_output bytes: beyond that,
 * reading stops until there is room.
 */
#ifndef WEIR_SERVER_OUT_H
#define WEIR_SERVER_OUT_H

#include <stddef.h>

#include "server/server.h"

/* Room for at least n bytes where the current reply is written; out_done then says where they
 * ended. Never NULL: without memory the process ends, as it would anyway (max_output bounds it). */
char *out_room(struct conn *c, size_t n);
void out_done(struct conn *c, const char *end);

/* For replies whose length is not known beforehand. */
void out_bytes(struct conn *c, const void *bytes, size_t len);
void out_text(struct conn *c, const char *text);

#endif
