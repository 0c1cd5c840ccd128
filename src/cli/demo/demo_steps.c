/* What the tour shows, in order: each step is a few lines of text and a command of weir. */
#include "cli/demo/demo_steps.h"

const struct demo_step DEMO_STEPS[] = {
    {"A limit is a line of text",
     "This one is a token bucket: 10 tokens a second flow in, the bucket holds 20, and\n"
     "each request takes one. weir says in plain words what a limit does, and what it\n"
     "lets through at worst:",
     &EXPLAIN_COMMAND, "explain 'token-bucket 10/s burst=20'", false},
    {"Why the simplest limit lets too much through",
     "A fixed window counts to 100 and starts again every ten seconds. A client that\n"
     "comes at the end of one window and at the start of the next gets 200 within five\n"
     "seconds. A sliding log looks at the last ten seconds, whenever they began, and\n"
     "refuses half of the same requests:",
     &SIM_COMMAND,
     "sim 'fixed-window 100/10s align=clock' 'sliding-log 100/10s' "
     "--traffic 'pause 7500ms; steady 50/s 2s; pause 1s; steady 50/s 2s; pause 7s' --chart",
     false},
    {"A token bucket: bursts, but not for long",
     "Who was quiet may come with 20 at once. After that, 10 a second. 15 a second go\n"
     "well for a while, until the bucket is empty:",
     &SIM_COMMAND,
     "sim 'token-bucket 10/s burst=20' "
     "--traffic 'steady 5/s 2s; burst 40 at 3s; pause 3s; steady 15/s 5s' --chart",
     false},
    {"A pacer: wait instead of being refused",
     "40 requests come at once, and leave one by one, every 100 ms. Good for calls to\n"
     "an API that allows 10 a second:",
     &SIM_COMMAND, "sim 'pacer 10/s' --traffic 'burst 40 at 500ms' --chart", false},
    {"A breaker: leave a failing service alone",
     "Behind this one stands a service whose errors rise to 90% and fall again. When\n"
     "half of the calls fail the breaker opens (O): calls are refused at once. Every\n"
     "second it lets a probe through (h), and closes (.) when the service is well:",
     &SIM_COMMAND,
     "sim 'breaker window=2s open=1s growth=1' "
     "--traffic 'steady 50/s 12s; service 20ms workers=8 errors=0..90..0%' --chart",
     false},
    {"What would a limit have done to yesterday's log?",
     "Here is a log of ten minutes: forty people, a crawler, and a script that knows\n"
     "when the minute begins. (weir demo --log > access.log writes it, if you want to\n"
     "try these commands yourself.) Four limits on the same requests. The worst window\n"
     "of the fixed one is twice its limit:",
     &REPLAY_COMMAND,
     "replay access.log 5/s 'fixed-window 60/m align=clock' 'sliding-log 60/m' "
     "'token-bucket 30/m burst=15' --compare",
     true},
    {"And which limit should it be?",
     "For each rate weir finds the smallest burst that refuses at most 5% of the\n"
     "clients, and tries it on the part of the log that it did not look at:",
     &ADVISE_COMMAND,
     "advise access.log --refuse 5% --rate 10/m --rate 20/m --rate 30/m --rate 1/s --rate 5/s",
     true},
    {"Now try it",
     "From the source tree, ./run builds weir and starts its daemon with a few limits;\n"
     "any Redis client or curl can ask it:\n"
     "\n"
     "    $ ./run --limit api='token-bucket 10/s burst=20'\n"
     "    $ redis-cli -p 7311 WEIR.TAKE api alice\n"
     "    $ curl -d limit=api -d key=alice http://127.0.0.1:7311/v1/take\n"
     "\n"
     "If weir is installed: weir serve --limit api='token-bucket 10/s burst=20'. Then\n"
     "weir help, and docs/README.md for everything else.",
     NULL, NULL, false},
};
const int DEMO_STEP_COUNT = sizeof DEMO_STEPS / sizeof DEMO_STEPS[0];
