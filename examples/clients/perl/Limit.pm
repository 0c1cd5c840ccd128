package Limit;    # PSGI: $app = Limit::wrap($app, 'api') asks weir before each request.
use strict;
use warnings;
use POSIX 'ceil';
use Redis;

my $TAKE = 'WEIR.TAKE';    # a variable: no method has a dot in its name

sub later {
    my ($status, $seconds) = @_;
    return [$status, ['Content-Type' => 'text/plain', 'Retry-After' => $seconds],
        ["try again later\n"]];
}

# closed => 1: without weir requests are refused with 503; otherwise they pass.
sub wrap {
    my ($app, $name, %with) = @_;
    my $client = $with{client} // sub { $_[0]{REMOTE_ADDR} };
    my $weir;
    return sub {
        my ($env) = @_;
        my $key = $client->($env);
        utf8::encode($key) if utf8::is_utf8($key);
        my @answer = eval {
            $weir //= Redis->new(server => $with{server} // '127.0.0.1:7311', reconnect => 0,
                cnx_timeout => 0.5, read_timeout => 0.5, write_timeout => 0.5);
            $weir->$TAKE($name, $key);
        };
        if (!@answer) {
            die $@ if $@ =~ /^\[$TAKE\]/;    # an answer, such as a limit that is not there
            undef $weir;
            return $with{closed} ? later(503, 1) : $app->($env);
        }
        my ($allowed, undef, undef, $retry_ms) = @answer;
        return $app->($env) if $allowed;
        return later(429, ceil($retry_ms / 1000) || 1);
    };
}

1;
