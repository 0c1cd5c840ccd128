# Redis.pm asks a daemon with the limit api=10/s and a clock that stands still. It prints one line
# for each question; serve_languages.py knows them all, and puts its own port in the place of 7311,
# and once Redis::Fast in the place of Redis.
use strict;
use warnings;

# guide
use Redis;

my $weir = Redis->new(server => '127.0.0.1:7311');
my $take = 'WEIR.TAKE';    # a variable: no method has a dot in its name
my ($allowed, $limit, $remaining, $retry_ms) = $weir->$take('api', 'alice');
print "wait $retry_ms ms\n" if !$allowed;
# end of guide

my ($peek, $throttle) = ('WEIR.PEEK', 'CL.THROTTLE');

sub flat { return map { ref ? flat(@$_) : $_ // 'null' } @_; }

sub say_it {
    my ($what, @values) = @_;
    print "$what: ", join(' ', flat(@values)), "\n";
}

sub say_error {
    my ($what, $ask) = @_;
    my @values = eval { $ask->() };
    say_it($what, $@ ? 'died ' . (split /, +at /, $@)[0] : @values);
}

say_it('named', $allowed, $limit, $remaining, $retry_ms);
say_it('ping', $weir->ping);
say_it('literal', $weir->$take('token-bucket 10/s burst=20', 'alice'));
say_it('emptied', $weir->$take('token-bucket 1/m', 'alice'));
say_it('refused', $weir->$take('token-bucket 1/m', 'alice'));
say_it('throttle', $weir->$throttle('alice', 15, 30, 60));
say_it('verbose', $weir->$take('api', 'alice', 'VERBOSE'));
say_error('error', sub { $weir->$take('nosuch', 'alice') });

# A command with a function does not wait for its reply: a pipeline.
my @replies;
$weir->$take('api', 'pipeline', sub { push @replies, $_[0] }) for 1 .. 3;
$weir->wait_all_responses;
say_it('pipeline', @replies);

$weir->multi;
$weir->$take('api', 'transaction') for 1 .. 3;
say_it('transaction', $weir->exec);
# Without a function exec dies at the first error, and Redis.pm leaves the replies after it unread.
$weir->multi;
$weir->$take($_, 'transaction') for 'api', 'nosuch', 'api';
$weir->exec(sub {
    say_it('error in it', map { my ($reply, $error) = @$_;
        $error ? "error $error" : map { $_->[0] } @$reply } @{ $_[0] });
});
$weir->wait_all_responses;
say_it('charged', $weir->$peek('api', 'transaction'));
$weir->multi;
$weir->$take('api', 'transaction');
say_error('unknown in it', sub { $weir->nosuch });
say_error('aborted', sub { $weir->exec });
say_it('not charged', $weir->$peek('api', 'transaction'));

say_it('select', $weir->select(1), $weir->$peek('api', 'pipeline'));
my $other = Redis->new(
    server     => '127.0.0.1:7311',
    name       => 'perl',
    on_connect => sub { $_[0]->select(1) },
);
say_it('name', $other->client_getname);
say_it('database', $other->$peek('api', 'pipeline'));
