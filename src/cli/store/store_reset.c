/* `weir store reset`: makes all keys of a state file fresh. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/store/store_change.h"
#include "cli/store/store_info.h"
#include "cli/store/store_options.h"
#include "cli/store/store_records.h"

static int reset_fail(const char *text)
{
    (void)fflush(stdout);
    (void)fprintf(stderr, "weir store reset: %s\n", text);
    return EXIT_FAILED;
}

/* What a reset would lose. */
struct reset_counts {
    uint64_t live, policies;
};

/* Asks on the terminal. */
static bool reset_confirm(const struct store_options *a, const struct reset_counts *at)
{
    char answer[16] = "";

    (void)printf("%s: live keys to reset: %" PRIu64 "; policies %s: %" PRIu64 ". Go on? [y/N] ",
                 a->file, at->live, a->all ? "to forget" : "to keep", at->policies);
    (void)fflush(stdout);
    if (!fgets(answer, sizeof answer, stdin))
        return false;
    answer[strcspn(answer, "\n")] = '\0';
    return strcmp(answer, "y") == 0 || strcmp(answer, "Y") == 0 || strcmp(answer, "yes") == 0;
}

/* Damage in a table is no obstacle: store_change checks what it keeps before it changes
 * anything. */
static int reset_count(const struct store_options *a, struct reset_counts *at,
                       struct weir_diag *why)
{
    struct store_image m;
    struct weir_diag ignored;
    int64_t now;
    int error = store_image_open(&m, a->file, why);

    if (error)
        return error;
    *at = (struct reset_counts){0};
    error = store_users_check(m.fd, a->file, why);
    now = weir__header_now(&m.header);
    at->policies = store_records_used(&m);
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++)
        if (atomic_load(&m.header.table[c].at) != 0 && store_keys_check(&m, c, &ignored) == 0)
            at->live += store_keys_count(&m, c, now).live;
    store_image_close(&m);
    return error;
}

static int reset_file(const struct store_options *a, const struct reset_counts *at)
{
    struct store_image m;
    struct store_result result;
    struct store_plan p;
    struct weir_diag why;
    int error = store_image_open_exclusive(&m, a->file, &why);

    if (error)
        return reset_fail(why.text);
    p = store_plan_of(&m);
    p.keep_keys = false;
    p.keep_policies = !a->all;
    error = store_change(&m, &p, NULL, STORE_DROP_OLD, &result, &why);
    store_image_close(&m);
    if (error)
        return reset_fail(why.text);
    (void)printf("%s: reset\n", a->file);
    store_print_line("live keys", "%" PRIu64 " reset", at->live);
    if (a->all)
        store_print_line("policies", "%" PRIu64 " forgotten", at->policies);
    else
        store_print_line("policies", "%" PRIu64 " kept", result.policies);
    return EXIT_DONE;
}

int store_reset_run(const struct store_options *a)
{
    struct reset_counts at;
    struct weir_diag why;

    if (!a->yes && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))) {
        (void)fprintf(stderr, "weir store reset: no terminal to ask on; expected --yes\n");
        return EXIT_USAGE;
    }
    if (reset_count(a, &at, &why) != 0)
        return reset_fail(why.text);
    if (!a->yes && !reset_confirm(a, &at))
        return reset_fail("nothing was changed");
    return reset_file(a, &at);
}
