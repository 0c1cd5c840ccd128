/* Names and texts of errors, reasons and guard states, from the lists in weir.h. */
#include <weir.h>

const char *weir_error_name(int error)
{
    switch (error) {
#define X(name, code, text) \
    case code: return #name;
        WEIR_ERRORS(X)
#undef X
    }
    return error == 0 ? "OK" : "unknown error";
}

const char *weir_error_text(int error)
{
    switch (error) {
#define X(name, code, text) \
    case code: return text;
        WEIR_ERRORS(X)
#undef X
    }
    return error == 0 ? "no error" : "unknown error";
}

const char *weir_reason_name(enum weir_reason reason)
{
    switch (reason) {
#define X(name) \
    case WEIR_##name: return #name;
        WEIR_REASONS(X)
#undef X
    }
    return "?";
}

const char *weir_guard_state_name(enum weir_guard_state state)
{
    switch (state) {
    case WEIR_CLOSED: return "closed";
    case WEIR_HALF_OPEN: return "half-open";
    case WEIR_OPENED: return "open";
    case WEIR_COOLING: return "cooling";
    }
    return "?";
}
