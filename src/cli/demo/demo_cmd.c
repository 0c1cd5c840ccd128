/* `weir demo`: plays the steps of the tour, each by the command that it shows. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/demo/demo_log.h"
#include "cli/demo/demo_steps.h"

struct demo_options {
    bool no_pause, log;
};

static const struct option OPTIONS[] = {
    {"--no-pause", NULL, OPTION_FLAG, OPTION_AT(demo_options, no_pause),
     .help = "do not wait for a key between steps"},
    {"--log", NULL, OPTION_FLAG, OPTION_AT(demo_options, log),
     .help = "print the log that the tour reads, and play nothing"},
    {0},
};

const struct command DEMO_COMMAND = {
    "demo",
    "play a tour of two minutes: limits, pictures, logs",
    "[OPTION...]",
    .about = TEXTS(
        "Plays a tour in the terminal: a limit in words; a fixed window against a sliding log, a "
        "token bucket, a pacer and a breaker, drawn; what limits would have done to a log, and "
        "which one fits it. Each step prints its command, and runs it as if you had typed it; "
        "nothing of it needs a daemon.",
        "On a terminal it pauses after each step: any key goes on, q ends the tour. In a pipe it "
        "does not pause."),
    .options = OPTIONS,
    .statuses = TEXTS("0 done, or ended with q", "1 a step failed", "2 the command line is wrong"),
    .examples = TEXTS("weir demo", "weir demo --no-pause | less",
                      "weir demo --log > access.log && weir advise access.log --refuse 5%"),
    OPERANDS(0, 0, "no operands"),
    .run = demo_command,
};

enum { DEMO_WORDS_MAX = 32, DEMO_LINE_MAX = 512, FOLDER_MAX = 256, PATH_LENGTH_MAX = 300 };

/* ---- Pauses ---------------------------------------------------------------------------------- */

/* One key, without its echo. Control-C and Control-D are q: the terminal sends no signals while it
 * waits here, so that it is always put back as it was. */
static char key_read(void)
{
    struct termios before, raw;
    char key = 'q';
    ssize_t got;

    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return 'q';
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) != 0)
        return 'q';
    do
        got = read(STDIN_FILENO, &key, 1);
    while (got < 0 && errno == EINTR);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    return got != 1 || key == 3 || key == 4 ? 'q' : key;
}

/* False: the tour ends here. */
static bool pause_goes_on(void)
{
    const bool colour = cli_colour();
    char key;

    (void)printf("\n%sany key goes on, q ends%s", colour ? "\033[2m" : "", colour ? "\033[0m" : "");
    (void)fflush(stdout);
    key = key_read();
    (void)fputs("\r                       \r", stdout);
    return key != 'q' && key != 'Q';
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Takes a line apart, in place, as a shell would: blanks part words, single quotes join them. */
static int line_split(char *line, char **words)
{
    int count = 0;

    while (*line && count < DEMO_WORDS_MAX) {
        const bool quoted = *line == '\'';
        char *const end = strchr(line + quoted, quoted ? '\'' : ' ');

        words[count++] = line + quoted;
        if (!end)
            break;
        *end = '\0';
        line = end + 1;
        while (*line == ' ')
            line++;
    }
    return count;
}

static int line_run(const struct demo_step *step)
{
    char line[DEMO_LINE_MAX], *words[DEMO_WORDS_MAX];
    int count;

    (void)snprintf(line, sizeof line, "%s", step->line);
    count = line_split(line, words);
    return step->command->run(count - 1, words + 1);
}

/* Makes a folder with the log in it. */
static bool log_make(char folder[FOLDER_MAX])
{
    const char *const tmp = getenv("TMPDIR");
    char path[PATH_LENGTH_MAX];
    FILE *log = NULL;
    bool good;

    (void)snprintf(folder, FOLDER_MAX, "%.200s/weir-demo-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (mkdtemp(folder)) {
        (void)snprintf(path, sizeof path, "%s/" DEMO_LOG_NAME, folder);
        log = fopen(path, "w");
    }
    good = log && demo_log_write(log);
    if (!good)
        (void)fprintf(stderr, "weir demo: cannot write the log to '%s': %s\n", folder,
                      strerror(errno));
    if (log)
        (void)fclose(log);
    return good;
}

static void log_remove(const char *folder)
{
    char path[PATH_LENGTH_MAX];

    (void)snprintf(path, sizeof path, "%s/" DEMO_LOG_NAME, folder);
    (void)unlink(path);
    (void)rmdir(folder);
}

/* Runs the line in a process of its own, as a command that was typed: commands keep what they do
 * not free. Control-C ends the child, and this process cleans up after it. */
static int line_run_apart(const struct demo_step *step, const char *folder)
{
    void (*const before)(int) = signal(SIGINT, SIG_IGN);
    int status = 0;
    pid_t child;

    (void)fflush(stdout);
    child = fork();
    if (child == 0) {
        (void)signal(SIGINT, before);
        status = folder && chdir(folder) != 0 ? EXIT_FAILED : line_run(step);
        _exit(fflush(stdout) == 0 || status != EXIT_DONE ? status : EXIT_FAILED);
    }
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            child = -1;
    (void)signal(SIGINT, before);
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DONE)
        return EXIT_DONE;
    if (child < 0 || WIFEXITED(status)) /* a signal, such as that of a closed pipe, needs no word */
        (void)fprintf(stderr, "weir demo: weir %s: failed\n", step->line);
    return EXIT_FAILED;
}

static int step_run(const struct demo_step *step)
{
    char folder[FOLDER_MAX];
    int status = EXIT_FAILED;

    if (!step->log)
        return line_run_apart(step, NULL);
    if (log_make(folder))
        status = line_run_apart(step, folder);
    log_remove(folder);
    return status;
}

static int step_play(const struct demo_step *step, int number)
{
    const bool colour = cli_colour();
    const char *const bold = colour ? "\033[1m" : "", *const plain = colour ? "\033[0m" : "";

    (void)printf("%s%s%d of %d: %s%s\n\n%s\n", number > 1 ? "\n" : "", bold, number,
                 DEMO_STEP_COUNT, step->title, plain, step->text);
    if (!step->command)
        return EXIT_DONE;
    (void)printf("\n%s$ weir %s%s\n", bold, step->line, plain);
    return step_run(step);
}

int demo_command(int argc, char **argv)
{
    struct demo_options o = {false, false};
    bool pauses;

    if (options_read(&DEMO_COMMAND, &o, argc, argv) < 0)
        return EXIT_USAGE;
    if (o.log)
        return demo_log_write(stdout) ? EXIT_DONE : EXIT_FAILED;
    pauses = !o.no_pause && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    for (int i = 0; i < DEMO_STEP_COUNT; i++) {
        if (step_play(&DEMO_STEPS[i], i + 1) != EXIT_DONE)
            return EXIT_FAILED;
        if (pauses && i + 1 < DEMO_STEP_COUNT && !pause_goes_on())
            return EXIT_DONE;
    }
    return EXIT_DONE;
}
