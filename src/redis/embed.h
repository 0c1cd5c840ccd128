/* What the daemon may use of the Redis store beside weir.h: decisions and undos that it begins and
 * is called back for, the pipeline that carries them, and addresses. The layer gate (tests/layers)
 * holds the server to it. */
#ifndef WEIR_REDIS_EMBED_H
#define WEIR_REDIS_EMBED_H

#include "redis/client/address.h"
#include "redis/client/pipeline.h"
#include "redis/redis_decide.h"
#include "redis/redis_undo.h"

#endif
