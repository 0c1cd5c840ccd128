/* Draws pictures to the terminal and to files. */
#include "cli/sim/draw.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/num.h"
#include "cli/commands.h"

enum { WIDTH_OF_PIPES = 80 };

static int width_of(const struct draw_options *o)
{
    struct winsize size;

    if (o->width > 0)
        return (int)o->width;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return WIDTH_OF_PIPES;
    return (int)weir__clamp(size.ws_col, PICTURE_WIDTH_MIN, PICTURE_WIDTH_MOST);
}

static int draw_failed(const char *command, const char *path, int error)
{
    (void)fprintf(stderr, "weir %s: cannot write '%s': %s\n", command, path, strerror(error));
    return EXIT_FAILED;
}

static int draw_svg(const char *path, const struct picture *p, const char *command)
{
    const bool standard = path[0] == '-' && !path[1];
    FILE *to = standard ? stdout : fopen(path, "we");
    bool good;

    if (!to)
        return draw_failed(command, path, errno);
    errno = 0;
    good = picture_svg(p, to) && !ferror(to);
    if (!standard && fclose(to) != 0)
        good = false;
    return good ? EXIT_DONE : draw_failed(command, path, errno ? errno : ENOMEM);
}

bool draw_goes_with_json(const struct draw_options *o, bool json, const char *command)
{
    const char *what = !json ? NULL : o->chart ? "--chart" : draw_to_stdout(o) ? "--svg -" : NULL;

    if (what)
        (void)fprintf(stderr, "weir %s: either --json or %s, not both (see weir %s --help)\n",
                      command, what, command);
    return !what;
}

int draw_picture(const struct draw_options *o, const struct picture *p, const char *command)
{
    if (o->chart && !picture_chart(p, stdout, width_of(o), cli_colour())) {
        (void)fprintf(stderr, "weir %s: out of memory\n", command);
        return EXIT_FAILED;
    }
    return o->svg ? draw_svg(o->svg, p, command) : EXIT_DONE;
}
