/* What `weir store` may use to read a shared file that it has not opened as an engine: the format
 * of the file, and how tables and overflow cells lie in it. The layer gate (tests/layers) holds
 * src/cli/store to it. */
#ifndef WEIR_ENGINE_STORE_INSPECT_H
#define WEIR_ENGINE_STORE_INSPECT_H

#include "engine/store/format.h"
#include "engine/store/pin.h"
#include "os/diag.h"
#include "table/cells.h"
#include "table/layout.h"

#endif
