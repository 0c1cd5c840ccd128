/* The trap flag: with it set, the processor traps after every instruction. The kernel clears it
 * while the signal is handled and sets it again when that returns. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "step.h"

#define TRAP_FLAG  0x100
#define BREAKPOINT 0xcc
#define PAGE       UINT64_C(4096)

extern const char __executable_start[], etext[]; /* the linker's: where our own code lies */

/* The stepping process has one thread. */
static struct {
    const struct step_deed *deed;
    struct step_trace *trace; /* NULL: to die at `target` */
    char *shadow[STEP_WATCHES];
    size_t n, target;        /* the point that comes next; where to die */
    uintptr_t breakpoint[2]; /* to be run to, one after the other; 0: none */
    size_t first;            /* which point it is, once the last of them is reached */
    unsigned char covered;   /* what stood where the breakpoint is */
} now;

/* ---- Breakpoints ----------------------------------------------------------------------------- */

static bool poke(uintptr_t at, unsigned char byte)
{
    void *page = (void *)(at & ~(PAGE - 1));

    if (mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return false;
    now.covered = *(unsigned char *)at;
    *(unsigned char *)at = byte;
    return true;
}

static void set_next_breakpoint(void)
{
    if (!poke(now.breakpoint[0], BREAKPOINT))
        _exit(3);
}

/* True if there is another one to run to. */
static bool pass_breakpoint(void)
{
    (void)poke(now.breakpoint[0], now.covered);
    now.breakpoint[0] = now.breakpoint[1];
    now.breakpoint[1] = 0;
    if (now.breakpoint[0] == 0)
        return false;
    set_next_breakpoint();
    return true;
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* Whether the instruction there may have changed what is watched: false only if it certainly has
 * not, which is so for most of them. It writes to a register, to nothing, or to the stack, which is
 * not watched. To compare only after the others finds the same changes in a fraction of the
 * time. */
static bool may_store(uintptr_t at)
{
    const unsigned char *code = (const unsigned char *)at;
    unsigned char op;
    bool to_register;

    if ((*code & 0xf0) == 0x40) /* REX */
        code++;
    op = code[0];
    to_register = code[1] >= 0xc0; /* of opcodes whose operand may be memory */
    if (op == 0x0f)                /* jcc; cmov; mov with zeros or with the sign */
        return (code[1] & 0xf0) != 0x80 && (code[1] & 0xf0) != 0x40 && (code[1] & 0xf6) != 0xb6;
    if (op < 0x40) /* add to cmp: to what ModRM says, from there, with a constant */
        return (op & 7) > 5 || ((op & 7) < 2 && op < 0x38 && !to_register);
    if (op < 0x60 || (op & 0xf0) == 0x70) /* push, pop; jcc */
        return false;
    /* mov to a register, lea, test, call, ret, jmp */
    if (memchr("\x63\x84\x85\x8a\x8b\x8d\xa8\xa9\xc3\xe8\xe9\xeb", op, 12))
        return false;
    /* add to cmp with a constant, mov, shifts, neg and its kind */
    return !to_register || !memchr("\x80\x81\x83\x88\x89\xc0\xc1\xd1\xd3\xf7", op, 10);
}

static bool watched_changed(void)
{
    bool changed = false;

    for (int i = 0; i < STEP_WATCHES && now.deed->watch[i].bytes > 0; i++)
        if (memcmp(now.shadow[i], now.deed->watch[i].at, now.deed->watch[i].bytes) != 0) {
            memcpy(now.shadow[i], now.deed->watch[i].at, now.deed->watch[i].bytes);
            changed = true;
        }
    return changed;
}

/* At a point. False: no more of them are wanted. */
static bool arrive(uintptr_t at)
{
    struct step_trace *t = now.trace;
    bool changed;

    if (!t && now.n == now.target)
        (void)kill(getpid(), SIGKILL);
    now.n++;
    if (!t)
        return true;
    if (t->n == t->cap) {
        t->whole = false;
        return false;
    }
    changed = (t->n == 0 || may_store(t->point[t->n - 1].at)) && watched_changed();
    t->point[t->n++] = (struct step_point){at, STEP_NO_ANCHOR, changed};
    return true;
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;

    (void)sig, (void)info;
    if (now.breakpoint[0] != 0) {
        regs[REG_RIP]--;
        if (pass_breakpoint())
            return;
        now.n = now.first;
        regs[REG_EFL] |= TRAP_FLAG;
    }
    if (!arrive((uintptr_t)regs[REG_RIP]))
        regs[REG_EFL] &= ~TRAP_FLAG;
}

/* ---- Doing it -------------------------------------------------------------------------------- */

/* The stack is used below the red zone: what is there may be in use. */
static void trap_flag_on(void)
{
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
                     "lea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}

static void trap_flag_off(void)
{
    __asm__ volatile("lea -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
                     "lea 128(%%rsp), %%rsp" ::
                         : "memory", "cc");
}

static void catch_traps(void)
{
    static char stack[64 * 1024];
    const stack_t aside = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_ONSTACK};

    (void)sigaltstack(&aside, NULL);
    (void)sigaction(SIGTRAP, &action, NULL);
}

static int act_in_steps(void)
{
    int result;

    catch_traps();
    if (now.breakpoint[0] != 0)
        set_next_breakpoint();
    else
        trap_flag_on();
    result = now.deed->act(now.deed->arg);
    trap_flag_off();
    return result;
}

void step_rehearse(const struct step_deed *d, struct step_trace *t)
{
    t->n = 0;
    t->whole = true;
    now.deed = d;
    now.trace = t;
    now.breakpoint[0] = (uintptr_t)d->from;
    for (int i = 0; i < STEP_WATCHES && d->watch[i].bytes > 0; i++) {
        now.shadow[i] = malloc(d->watch[i].bytes);
        if (!now.shadow[i])
            _exit(3);
        memcpy(now.shadow[i], d->watch[i].at, d->watch[i].bytes);
    }
    t->result = act_in_steps();
}

void step_die_at(const struct step_deed *d, const struct step_trace *t, size_t k)
{
    const uint32_t anchor = t->point[k].anchor;
    int i = 0;

    now.deed = d;
    now.trace = NULL;
    now.target = k;
    if (d->from)
        now.breakpoint[i++] = (uintptr_t)d->from;
    if (anchor != STEP_NO_ANCHOR && !(d->from && anchor == 0)) {
        now.breakpoint[i] = t->point[anchor].at;
        now.first = anchor;
    }
    (void)act_in_steps();
}

/* ---- Anchors --------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

    return (x > y) - (x < y);
}

static bool is_ours(uintptr_t at)
{
    return at >= (uintptr_t)__executable_start && at < (uintptr_t)etext;
}

static bool occurs_once(const uintptr_t *sorted, size_t n, uintptr_t at)
{
    const uintptr_t *found = bsearch(&at, sorted, n, sizeof at, by_address);

    return (found == sorted || found[-1] != at) && (found == sorted + n - 1 || found[1] != at);
}

void step_index(struct step_trace *t)
{
    uintptr_t *sorted = malloc((t->n + 1) * sizeof *sorted);
    uint32_t anchor = STEP_NO_ANCHOR;

    if (!sorted)
        return;
    for (size_t i = 0; i < t->n; i++)
        sorted[i] = t->point[i].at;
    qsort(sorted, t->n, sizeof *sorted, by_address);
    for (size_t i = 0; i < t->n; i++) {
        if (is_ours(t->point[i].at) && occurs_once(sorted, t->n, t->point[i].at))
            anchor = (uint32_t)i;
        t->point[i].anchor = anchor;
    }
    free(sorted);
}

struct step_trace *step_trace_open(size_t cap)
{
    struct step_trace *t = mmap(NULL, sizeof *t + cap * sizeof t->point[0], PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (t == MAP_FAILED)
        abort();
    t->cap = cap;
    return t;
}

void step_trace_close(struct step_trace *t)
{
    (void)munmap(t, sizeof *t + t->cap * sizeof t->point[0]);
}

/* Two instructions, and a victim that must die at the second. */
static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

bool step_works(void)
{
    const struct step_deed d = {.act = nothing};
    struct step_trace *t = step_trace_open(1000);
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        step_rehearse(&d, t);
        _exit(0);
    }
    (void)waitpid(child, &status, 0);
    step_index(t);
    if (status == 0 && t->n > 1) {
        child = fork();
        if (child == 0) {
            step_die_at(&d, t, t->n - 1);
            _exit(0);
        }
        (void)waitpid(child, &status, 0);
    }
    step_trace_close(t);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}
