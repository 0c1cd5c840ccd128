/* Answers on their way to a client.
 *
 * Answers are written in the order of the questions. Most are in the worker's scratch buffer when a
 * wake-up ends, and leave with one write; what the socket would not take, and what stands behind an
 * answer that is held back, waits in segments of the connection's own, within max_output bytes: then
 * reading stops until there is room.
 */
#ifndef WEIR_SERVER_OUT_H
#define WEIR_SERVER_OUT_H

#include <stddef.h>

#include "server/server.h"

/* Room for at least n bytes at the place of the answer that is being written; then out_done says where
 * they ended. Never NULL: without memory the process ends, as it would anyway (max_output bounds it). */
char *out_room(struct conn *c, size_t n);
void out_done(struct conn *c, const char *end);

/* For answers whose length is not known beforehand. */
void out_bytes(struct conn *c, const void *bytes, size_t len);
void out_text(struct conn *c, const char *text);

#endif
