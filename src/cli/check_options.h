/* The options of `weir check`. */
#ifndef WEIR_CLI_CHECK_OPTIONS_H
#define WEIR_CLI_CHECK_OPTIONS_H

#include "cli/options.h"

struct check_options {
    bool json;
};

#endif
