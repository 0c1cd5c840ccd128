/* `weir peek`, `charge`, `enter` and `reserve`: decisions of a server. (`weir take` is beside
 * them in take_cmd.c, since it can also decide on a store by itself.) */
#include "cli/client/call.h"

#define EXAMPLE_LIMIT             "a limit and a key, as in weir "
#define VERDICT_STATUSES(yes, no) TEXTS("0 " yes, "1 " no, CLIENT_STATUSES)

/* WEIR.X limit key */
static struct client_command decision_words(const char *verb, char **argv)
{
    return (struct client_command){.word = {verb, argv[0], argv[1]}, .n = 3};
}

/* ---- Peek ------------------------------------------------------------------------------------ */

static int peek_command(int argc, char **argv);

static const struct option PEEK_OPTIONS[] = {
    CALL_ROW_COST("the cost of the take that is asked about; 0: how many are left now"),
    {"numbers=", "LIMIT", OPTION_TEXT, CALL_AT(numbers), .times = 1,
     .expected = "a limit such as 200/s", .help = "numbers that replace the limit's this once"},
    CALL_CLIENT,
    {0},
};

const struct command PEEK_COMMAND = {
    "peek",
    "ask a server what a take would be answered",
    "[OPTION...] LIMIT KEY [cost=N] [numbers=LIMIT]",
    .about = TEXTS("Asks a server what a take would be answered, and takes nothing. With cost=0 "
                   "the answer says how many are left now; with a cost, how many would be left "
                   "after it."),
    .operands = (const struct operand[]){CALL_OPERAND_LIMIT, CALL_OPERAND_KEY, {0}},
    .options = PEEK_OPTIONS,
    .statuses = VERDICT_STATUSES("it would be allowed", "it would be denied"),
    .examples = TEXTS("weir peek api alice", "weir peek api alice cost=0 --json"),
    OPERANDS(2, 2, EXAMPLE_LIMIT "peek api alice"),
    .dash_words = true,
    .run = peek_command,
};

static int peek_command(int argc, char **argv)
{
    static const struct call_verdict HOW = {"peek", "would be allowed", "would be denied", NULL,
                                            false};
    struct call_options o;
    struct client_command w;
    const int status = call_read(&PEEK_COMMAND, &o, argc, argv);

    if (status)
        return status;
    w = decision_words("WEIR.PEEK", argv);
    if (o.cost >= 0)
        words_add_int(&w, o.cost);
    if (o.numbers) {
        words_add(&w, "LIMIT");
        words_add(&w, o.numbers);
    }
    words_add(&w, "VERBOSE");
    return call_verdict(&HOW, &o.client, &w, 0);
}

/* ---- Charge ---------------------------------------------------------------------------------- */

static int charge_command(int argc, char **argv);

static const struct option CLIENT_ONLY[] = {CALL_CLIENT, {0}};

const struct command CHARGE_COMMAND = {
    "charge",
    "charge a key on a server without asking",
    "[OPTION...] LIMIT KEY COST",
    .about = TEXTS("Takes without asking, for a cost that is known only afterwards: the key may "
                   "owe more than its limit, and later takes are denied until that is paid."),
    .operands =
        (const struct operand[]){
            CALL_OPERAND_LIMIT, CALL_OPERAND_KEY, {"COST", "what it did cost", NULL}, {0}},
    .options = CLIENT_ONLY,
    .statuses = VERDICT_STATUSES("charged", "not counted: the store is full or does not answer"),
    .examples = TEXTS("weir charge tokens alice 1234"),
    OPERANDS(3, 3, "a limit, a key and a cost, as in weir charge tokens alice 1234"),
    .dash_words = true,
    .run = charge_command,
};

static int charge_command(int argc, char **argv)
{
    static const struct call_verdict HOW = {"charge", "charged", "not charged", NULL, false};
    struct call_options o;
    struct client_command w;
    const int status = call_read(&CHARGE_COMMAND, &o, argc, argv);

    if (status || !call_read_cost(&CHARGE_COMMAND, argv[2], &o.cost))
        return EXIT_USAGE;
    w = decision_words("WEIR.CHARGE", argv);
    words_add_int(&w, o.cost);
    words_add(&w, "VERBOSE");
    return call_verdict(&HOW, &o.client, &w, 0);
}

/* ---- Enter ----------------------------------------------------------------------------------- */

static int enter_command(int argc, char **argv);

static const struct option ENTER_OPTIONS[] = {
    CALL_ROW_COST("how many permits to take"),
    {"wait=", "DURATION", OPTION_PATIENCE, CALL_AT(wait_ns), .most = INT64_MAX, .times = 1,
     .expected = "a duration such as 1.5s, or forever", .completes = "forever",
     .by_default = "no wait", .help = "wait in the limit's queue for at most this long"},
    {"ttl=", "DURATION", OPTION_DURATION, CALL_AT(ttl_ns), .least = 1, .most = INT64_MAX,
     .times = 1, .expected = "a duration such as 30s", .by_default = "the limit's lease",
     .help = "when the ticket ends if nothing exits it"},
    CALL_CLIENT,
    {0},
};

const struct command ENTER_COMMAND = {
    "enter",
    "enter a limit with guards on a server",
    "[OPTION...] LIMIT KEY [cost=N] [wait=DURATION] [ttl=DURATION]",
    .about = TEXTS("Enters a limit with guards (concurrency, breaker and others) before a call, "
                   "and prints a ticket, which weir exit ends after it. Standard output has the "
                   "ticket alone; the line about it is on standard error.",
                   "The ticket also ends with its lease. weir run does all of this around a "
                   "command."),
    .operands = (const struct operand[]){CALL_OPERAND_LIMIT, CALL_OPERAND_KEY, {0}},
    .options = ENTER_OPTIONS,
    .statuses = VERDICT_STATUSES("entered", "denied"),
    .examples =
        TEXTS("weir enter db backup wait=30s",
              "t=$(weir enter db backup) && { backup && weir exit $t || weir exit $t error; }"),
    OPERANDS(2, 2, EXAMPLE_LIMIT "enter db backup"),
    .dash_words = true,
    .run = enter_command,
};

static int enter_command(int argc, char **argv)
{
    static const struct call_verdict HOW = {"enter", "entered", "denied", "ticket", false};
    struct call_options o;
    struct client_command w;
    const int status = call_read(&ENTER_COMMAND, &o, argc, argv);

    if (status)
        return status;
    w = decision_words("WEIR.ENTER", argv);
    if (o.cost >= 0)
        words_add_int(&w, o.cost);
    if (o.ttl_ns >= 0)
        words_add_time(&w, "TTL", o.ttl_ns);
    if (o.wait_ns >= 0)
        words_add_time(&w, "WAIT", o.wait_ns);
    words_add(&w, "VERBOSE");
    return call_verdict(&HOW, &o.client, &w, o.wait_ns < 0 ? 0 : o.wait_ns);
}

/* ---- Reserve --------------------------------------------------------------------------------- */

static int reserve_command(int argc, char **argv);

static const struct option RESERVE_OPTIONS[] = {
    {"ttl=", "DURATION", OPTION_DURATION, CALL_AT(ttl_ns), .least = 1, .most = INT64_MAX,
     .times = 1, .expected = "a duration such as 30s", .by_default = "1m",
     .help = "when the reservation lapses if nothing settles it"},
    {"lapse=", CALL_LAPSES, OPTION_CHOICE, CALL_AT(lapse), .times = 1, .expected = "keep or free",
     .by_default = "keep", .help = "what a lapsed reservation counts as: its estimate, or nothing"},
    CALL_CLIENT,
    {0},
};

const struct command RESERVE_COMMAND = {
    "reserve",
    "take an estimate on a server, to be settled later",
    "[OPTION...] LIMIT KEY COST [ttl=DURATION] [lapse=keep|free]",
    .about = TEXTS("Takes an estimate of a cost that is known only afterwards, and prints an id: "
                   "weir commit settles it with what it did cost, weir cancel gives it back. "
                   "Standard output has the id alone; the line about it is on standard error."),
    .operands =
        (const struct operand[]){
            CALL_OPERAND_LIMIT, CALL_OPERAND_KEY, {"COST", "the estimate", NULL}, {0}},
    .options = RESERVE_OPTIONS,
    .statuses = VERDICT_STATUSES("reserved", "denied"),
    .examples = TEXTS("weir reserve tokens alice 2000 ttl=30s",
                      "id=$(weir reserve tokens alice 2000 ttl=30s) && weir commit $id 1234"),
    OPERANDS(3, 3, "a limit, a key and a cost, as in weir reserve tokens alice 2000"),
    .dash_words = true,
    .run = reserve_command,
};

static int reserve_command(int argc, char **argv)
{
    static const struct call_verdict HOW = {"reserve", "reserved", "denied", "id", false};
    static const int64_t TTL_NS = 60ll * 1000000000;
    struct call_options o;
    struct client_command w;
    const int status = call_read(&RESERVE_COMMAND, &o, argc, argv);

    if (status || !call_read_cost(&RESERVE_COMMAND, argv[2], &o.cost))
        return EXIT_USAGE;
    w = decision_words("WEIR.RESERVE", argv);
    words_add_int(&w, o.cost);
    words_add_time(&w, "TTL", o.ttl_ns < 0 ? TTL_NS : o.ttl_ns);
    if (o.lapse >= 0) {
        words_add(&w, "LAPSE");
        words_add(&w, o.lapse == 0 ? "keep" : "free");
    }
    words_add(&w, "VERBOSE");
    return call_verdict(&HOW, &o.client, &w, 0);
}
