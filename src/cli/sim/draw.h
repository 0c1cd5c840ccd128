/* The options that ask for a picture, which `weir sim`, `weir replay` and `weir advise` share, and
 * where the picture goes. */
#ifndef WEIR_CLI_SIM_DRAW_H
#define WEIR_CLI_SIM_DRAW_H

#include "cli/options.h"
#include "sim/picture/picture.h"

struct draw_options {
    bool chart;
    const char *svg;
    int64_t width; /* 0: the terminal's, or 80 */
};

/* Rows for a command whose struct `type` has a struct draw_options `draw`. */
#define DRAW_OPTION_ROWS(type)                                                                \
    {"--chart", NULL, OPTION_FLAG, OPTION_AT(type, draw.chart),                               \
     .help = "draw a chart: what was asked, passed, delayed and refused over time, with the " \
             "limit as a line"},                                                              \
        {"--svg",                                                                             \
         "FILE",                                                                              \
         OPTION_TEXT,                                                                         \
         OPTION_AT(type, draw.svg),                                                           \
         .times = 1,                                                                          \
         .expected = "a path, such as picture.svg",                                           \
         .completes = COMPLETE_FILE,                                                          \
         .help = "write the chart as SVG to this file; - is standard output"},                \
    {                                                                                         \
        "--width", "N", OPTION_COUNT, OPTION_AT(type, draw.width),                            \
            .least = PICTURE_WIDTH_MIN, .most = PICTURE_WIDTH_MOST,                           \
            .expected = "40 to 500 columns", .by_default = "the terminal's, or 80",           \
            .help = "columns of the chart"                                                    \
    }

static inline bool draw_wanted(const struct draw_options *o)
{
    return o->chart || o->svg;
}

/* The SVG goes to standard output, and nothing else does. */
static inline bool draw_to_stdout(const struct draw_options *o)
{
    return o->svg && o->svg[0] == '-' && !o->svg[1];
}

/* False: the chart, or the SVG, would stand in the JSON, and a message says so. */
bool draw_goes_with_json(const struct draw_options *o, bool json, const char *command);

/* Draws the picture as the options say; returns the command's exit status. */
int draw_picture(const struct draw_options *o, const struct picture *p, const char *command);

#endif
